"""A short answer in a full sentence: the question turned into a statement, or a plain carrier.

The same forms are filled with right and with wrong answers, so a form says nothing about the class.
"""

from __future__ import annotations

import re
from random import Random

from training.spans import Kind

_SLOT = "\0"

# A verb that may stand right after the subject noun of "Which <noun> <verb> ...".
_VERB = (
    r"(?:is|was|are|were|has|have|had|will|can|won|wrote|directed|played|starred|released|founded|"
    r"made|produced|created|published|hosted|served|led|owns|owned|contains|includes|features|"
    r"featured|became|began|came|lies|runs|covers|received|designed|developed|recorded|sang|"
    r"appeared|portrayed|composed|invented|married|fought|died|lived|holds|held|plays|stars|"
    r"originated|opened|formed|sponsored|bought|acquired|operates|helped|took|graduates|scored)"
)
_PARTICIPLE = (
    r"(?:born|founded|formed|built|located|released|made|held|won|established|published|based|"
    r"created|directed|written|opened|filmed|set|played|produced|situated|buried|named|known|"
    r"recorded|introduced|signed|elected|killed|headquartered|used|called|invented|completed|"
    r"launched|created|developed|designed|owned|awarded|incorporated|discovered|nominated)"
)
_NOUN = r"(?:[\w'\u2019.-]+ ){0,4}?[\w'\u2019.-]+"
_CHOICE = r"(?:[A-Z\"].*?) or (?:.+)"
# Words that no statement ends with: the rule took the question for another.
_CUT_OFF = re.compile(r"(?i)\b(?:who|whom|which|what|to|from|than|the|an?)$")
_BE = r"(is|was|are|were)"

# (pattern of a question without its mark, the statement with the slot for the answer)
_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), statement)
    for pattern, statement in (
        (
            rf"^(?i:which|what)(?: one)? (?:{_NOUN} )?({_VERB}(?: [a-z-]+)+),? {_CHOICE}$",
            r"{a} \1",
        ),
        (rf"^(?i:who) ({_VERB}(?: [a-z-]+)+),? {_CHOICE}$", r"{a} \1"),
        (rf"(?i)^(?:in )?(?:what|which) year {_BE} (.+?) ({_PARTICIPLE}\b.*)$", r"\2 \1 \3 in {a}"),
        (rf"(?i)^when {_BE} (.+?) ({_PARTICIPLE}\b.*)$", r"\2 \1 \3 {when}"),
        (rf"(?i)^where {_BE} (.+?) ({_PARTICIPLE}\b.*)$", r"\2 \1 \3 in {a}"),
        (r"(?i)^(?:what|which) is the name of (the .+)$", r"the name of \1 is {a}"),
        (rf"(?i)^(?:what|who) {_BE} (the .+)$", r"\2 \1 {a}"),
        (rf"(?i)^(?:what|which) (nationality) {_BE} (.+)$", r"the \1 of \3 \2 {a}"),
        (rf"(?i)^who ({_VERB} .+)$", r"{a} \1"),
        (r"(?i)^who ((?!did|do|does)[a-z]+(?:s|ed) .+)$", r"{a} \1"),
        (rf"(?i)^(?:what|which) {_NOUN} (?!(?:is|was|are|were) [A-Z])({_VERB} .+)$", r"{a} \1"),
        (rf"(?i)^(.+ (?:in|of|by|from|for|on|at|with|to)),? (?:what|which) {_NOUN}$", r"\1 {a}"),
        (
            r"(?i)^(.+ (?:in|of|by|from|for|on|at|with|to|called|named)) (?:who|whom|what|where)$",
            r"\1 {a}",
        ),
        (
            rf"(?i)^(.+ (?:featuring|starring|called|had|won|has)),? (?:how many|which|what) "
            rf"({_NOUN})$",
            r"\1 {a} \2",
        ),
        (rf"(?i)^(.+ {_BE}) (?:born|located|based|held) in (?:what|which) {_NOUN}$", r"\1 in {a}"),
    )
)
_YES_NO = (
    (
        re.compile(r"(?i)^(is|are|was|were|did|do|does|have|has|had|can) (.+?) both (.+)$"),
        r"\2 \1 both \3",
        r"\2 \1 not both \3",
    ),
    (re.compile(r"(?i)^both (.+?) (are|were|have) (.+)$"), r"both \1 \2 \3", r"\1 \2 not both \3"),
    (
        re.compile(
            r"^(?i:(is|are|was|were)) (.+?) ((?:a|an|the|in|located|from|based|used|also|older|"
            r"larger|younger|released|founded|considered|known|named|members|types) .+)$"
        ),
        r"\2 \1 \3",
        r"\2 \1 not \3",
    ),
)
_STATEMENT_SHARE = 0.7
_NAMES_TEXT = re.compile(r"\b(?:text|passage|knowledge|given)\b")
_OPENERS = ("", "", "", "", "", "In fact, ", "According to the text, ", "As the passage says, ")

_CARRIERS: dict[Kind | None, tuple[str, ...]] = {
    None: (
        "The answer is {a}",
        "The correct answer is {a}",
        "It is {a}",
        "It was {a}",
        "According to the text, it is {a}",
        "According to the text, the answer is {a}",
        "The text gives {a}",
        "{a} is the answer",
        "{a} is the answer to this question",
        "{a} is what the text says",
        "As the passage states, the answer is {a}",
        "From what is given here, the answer must be {a}",
        "The answer to this question is {a}",
        "I would say {a}",
        "That would be {a}",
        "In this case it is {a}, as can be read in the text",
        "The passage makes clear that the answer is {a}",
        "Going by the knowledge that is given, the answer is {a}",
        "When asked this, one should answer {a}",
    ),
    Kind.YEAR: (
        "It was in {a}",
        "That was in {a}",
        "This happened in the year {a}",
        "The year was {a}",
        "According to the text, it was in {a}",
        "The year that is meant is {a}",
    ),
    Kind.DATE: (
        "It was on {a}",
        "The date was {a}",
        "This happened on {a}",
        "According to the text, the date is {a}",
    ),
    Kind.NUMBER: (
        "The number is {a}",
        "There are {a}",
        "The text says {a}",
        "The figure in the text is {a}",
        "It comes to {a} according to the passage",
    ),
    Kind.PLACE: (
        "It is in {a}",
        "The place is {a}",
        "The place that is meant is {a}",
        "According to the text, the place is {a}",
    ),
}
_YES_CARRIERS = (
    "The answer is yes",
    "Yes, that is right",
    "Yes, the text says so",
    "Yes, according to the text that is the case",
    "Yes, they do",
    "This is true",
)
_NO_CARRIERS = (
    "The answer is no",
    "No, that is not right",
    "No, the text says otherwise",
    "No, according to the text that is not the case",
    "No, they do not",
    "This is not true",
)


def fill(form: str, answer: str) -> str:
    """Return the form with the answer in its slot, beginning with a capital.

    Example:
        >>> fill("{a} was started first", "Arthur's Magazine")
        "Arthur's Magazine was started first"
    """
    preposition = "in" if re.fullmatch(r"\d{4}", answer) else "on"
    when = f"{preposition} {answer}" if answer[:1].isalnum() else answer
    text = form.replace("{when}", when).replace("{a}", answer)
    return text[:1].upper() + text[1:]


def rewrite(question: str) -> str | None:
    """Return the statement form of a question that a rule fits, else None.

    Example:
        >>> rewrite("Which magazine was started first Arthur's Magazine or First for Women?")
        '{a} was started first'
        >>> rewrite("In what year was Ann Lee born?")
        'Ann Lee was born in {a}'
        >>> rewrite("Samsung makes phones in which country?")
        'Samsung makes phones in {a}'
    """
    question = question.strip().rstrip("?.! ")
    if "{" in question or "?" in question or len(question.split()) > 40:
        return None
    for pattern, statement in _REWRITES:
        match = pattern.match(question)
        if match:
            slot = statement.replace("{a}", _SLOT).replace("{when}", _SLOT * 2)
            text = match.expand(slot)
            form = text.replace(_SLOT * 2, "{when}").replace(_SLOT, "{a}")
            is_cut = " or " in form or _CUT_OFF.search(form)
            return None if is_cut else form
    return None


def state_yes_no(question: str, is_yes: bool) -> str | None:
    """Return a yes-no question as a statement, or as its denial; None where no rule fits.

    Example:
        >>> state_yes_no("Are Kasabian and Jawbox both from England?", is_yes=False)
        'Kasabian and Jawbox are not both from England'
    """
    question = question.strip().rstrip("?.! ")
    for pattern, positive, negative in _YES_NO:
        match = pattern.match(question)
        if match:
            auxiliary = next(group for group in match.groups() if group)
            text = match.expand(positive if is_yes else negative)
            if auxiliary.lower() in ("did", "do", "does", "have", "has", "had", "can") and not (
                is_yes or auxiliary.lower() in ("have", "has", "had", "can")
            ):
                return f"It is not true that {match.expand(positive)}".replace(" did both", " both")
            text = re.sub(r"(?i) (?:did|do|does) both", " both", text)
            return re.sub(
                r" (Is|Are|Was|Were|Have|Has|Had|Can) ", lambda m: m.group().lower(), text
            )
    return None


def choose_form(
    question: str | None,
    kind: Kind,
    rng: Random,
    *,
    num_words: int | None = None,
    has_text: bool = True,
) -> str:
    """Return a form for an answer of a kind, drawn at random.

    Args:
        question: What is answered; a statement made of it is preferred where a rule fits.
        kind: Of the right answer. Not for ``Kind.YES_NO``, which has no slot to fill.
        rng: Draws.
        num_words: Length to come close to, without the answer; any where None.
        has_text: Whether there is a text to name.
    """
    statement = None if question is None else rewrite(question)
    openers = _OPENERS if has_text else _OPENERS[:-2]
    if statement is not None and num_words is None and rng.random() < _STATEMENT_SHARE:
        return rng.choice(openers) + statement
    forms = [*_CARRIERS[None], *_CARRIERS.get(kind, ()) * 2]
    if not has_text:
        forms = [form for form in forms if not _NAMES_TEXT.search(form)]
    if num_words is None:
        return rng.choice(forms)
    if statement is not None:
        forms += [opener + statement for opener in sorted(set(openers))]
    rng.shuffle(forms)
    return min(forms, key=lambda form: abs(len(form.split()) - 1 - num_words))


def say_yes_no(question: str | None, is_yes: bool, rng: Random, *, has_text: bool = True) -> str:
    """Return a sentence that answers a yes-no question, drawn at random."""
    statement = None if question is None else state_yes_no(question, is_yes)
    if statement is not None and rng.random() < 0.6:
        opener = rng.choice(("", "Yes, " if is_yes else "No, "))
        text = opener + statement
        return text[:1].upper() + text[1:]
    carriers = _YES_CARRIERS if is_yes else _NO_CARRIERS
    return rng.choice([each for each in carriers if has_text or not _NAMES_TEXT.search(each)])
