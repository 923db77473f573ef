"""What a service says that it is, as far as its verdicts depend on it: model, contract, engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from client import DetectorClient, DetectorError
from evaluation.errors import EvaluationError
from evaluation.json_fields import Fields


@dataclass(frozen=True, slots=True)
class ServiceIdentity:
    """What is served, on what.

    Attributes:
        model: Its id: ``embedded``, a folder's name, ``org/repo``.
        revision: Which weights: a commit, or a hash of the folder. Every file of a folder counts,
            so that one more document in it makes another revision.
        weights_sha256: Of the trained adapter that the weights were exported from; the same in
            every folder and repository that holds them. None where the weights do not say.
        contract_version: Of the service.
        contract: Fingerprint of the service's contract.
        temperature: That probabilities are calibrated with.
        threshold: A hallucination from this probability on, in [0, 1].
        engine: Its name.
        engine_version: Of its package.
        device: ``cpu`` or ``cuda``.
        dtype: Number format of the weights.
        processor: Its model name.
        num_cores: That the service may use.
        accelerator: The GPU's name; None where there is none.
    """

    model: str
    revision: str
    weights_sha256: str | None
    contract_version: int
    contract: str
    temperature: float
    threshold: float
    engine: str
    engine_version: str
    device: str
    dtype: str
    processor: str
    num_cores: int
    accelerator: str | None

    @classmethod
    def from_json(cls, info: Fields) -> ServiceIdentity:
        """Read an answer of ``GET /info``, or what ``to_json`` gave.

        Raises:
            ValueError: A member is missing or of the wrong kind; the message names it.
        """
        model, engine = info.fields("model"), info.fields("engine")
        calibration, hardware = info.fields("calibration"), info.fields("hardware")
        return cls(
            model=model.text("id"),
            revision=model.text("revision"),
            weights_sha256=info.text_or_none("weights_sha256"),
            contract_version=info.count("contract_version"),
            contract=info.text("contract"),
            temperature=calibration.number("temperature"),
            threshold=calibration.number("threshold", 1),
            engine=engine.text("name"),
            engine_version=engine.text("version"),
            device=engine.text("device"),
            dtype=engine.text("dtype"),
            processor=hardware.text("processor"),
            num_cores=hardware.count("num_cores"),
            accelerator=hardware.text_or_none("accelerator"),
        )

    @property
    def hardware(self) -> str:
        """What it computes on, in words."""
        return self.accelerator or f"{self.processor}, {self.num_cores} cores"

    @property
    def calibration(self) -> str:
        """What probabilities and verdicts are made with, in words, with all digits."""
        return f"temperature {self.temperature!r}, threshold {self.threshold!r}"

    def has_weights_of(self, other: ServiceIdentity) -> bool:
        """Return whether both serve the same trained weights.

        Where both know the adapter that the weights come from, that decides: a folder and the
        repository that it was pushed to have different revisions.
        """
        if self.weights_sha256 is not None and other.weights_sha256 is not None:
            return self.weights_sha256 == other.weights_sha256
        return (self.model, self.revision) == (other.model, other.revision)

    def to_json(self) -> dict[str, Any]:
        """Return the members as ``GET /info`` has them; those that are kept here."""
        return {
            "model": {"id": self.model, "revision": self.revision},
            "weights_sha256": self.weights_sha256,
            "contract_version": self.contract_version,
            "contract": self.contract,
            "calibration": {"temperature": self.temperature, "threshold": self.threshold},
            "engine": {
                "name": self.engine,
                "version": self.engine_version,
                "device": self.device,
                "dtype": self.dtype,
            },
            "hardware": {
                "processor": self.processor,
                "num_cores": self.num_cores,
                "accelerator": self.accelerator,
            },
        }


def identify(client: DetectorClient) -> ServiceIdentity:
    """Return what a service says that it is.

    Raises:
        EvaluationError: It cannot be reached, refuses the key, or leaves something out.
    """
    try:
        return ServiceIdentity.from_json(Fields(client.info()))
    except DetectorError as error:
        raise EvaluationError(f"the service does not say what it serves: {error}") from error
    except ValueError as error:
        raise EvaluationError(
            f"the service's /info does not say what it serves ({error}): deploy a service that is "
            "as new as this code"
        ) from error
