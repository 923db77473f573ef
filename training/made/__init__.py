"""Rows made by rule about invented worlds, for the kinds of hallucination that found sets lack.

Each pair is built in a mirror: what is right in one of its worlds, or to one of its questions, is
wrong in or to the other. So nothing that a response looks like tells its class.
"""
