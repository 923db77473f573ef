"""Pairs about who did what to whom, causes, conditions, quantities of a group, and changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from training.made.cases import Case, Row, Side, end, mirror, quote
from training.made.lookups import Setting
from training.made.scenes import ENGLISH, capitalise
from training.made.values import draw_name, draw_values

# (A did it to B, the same from B's side); {a} acts.
_ACTS = (
    ("{a} beat {b}", "{b} lost to {a}", "{b} was beaten by {a}", "{a} won against {b}"),
    ("{a} hired {b}", "{b} was hired by {a}", "{b} got a job from {a}", "{a} took {b} on"),
    ("{a} taught {b}", "{b} was a pupil of {a}", "{b} learned from {a}", "{a} gave lessons to {b}"),
    ("{a} lent money to {b}", "{b} borrowed money from {a}", "{a} gave a loan to {b}"),
    (
        "{a} sold a boat to {b}",
        "{b} bought a boat from {a}",
        "{b} paid {a} for a boat",
    ),
    ("{a} sued {b}", "{b} was sued by {a}", "{b} was taken to court by {a}"),
    ("{a} painted {b}", "{b} was painted by {a}", "{b} had a portrait painted by {a}"),
    ("{a} succeeded {b}", "{b} was followed in office by {a}", "{a} took office right after {b}"),
    ("{a} overtook {b}", "{b} was passed by {a}", "{b} was overtaken by {a}"),
    ("{a} rescued {b}", "{b} was saved by {a}", "it was {a} who rescued {b}"),
    ("{a} wrote to {b}", "{b} got a letter from {a}", "a letter by {a} reached {b}"),
    ("{a} reports to {b}", "{b} is the superior of {a}", "{a} works under {b}"),
    ("{a} visited {b}", "{b} had {a} as a guest", "{b} was called on by {a}"),
    ("{a} inherited from {b}", "{b} left an estate to {a}", "the estate of {b} passed to {a}"),
    ("{a} warned {b}", "{b} was warned by {a}", "{b} received a warning from {a}"),
    ("{a} nominated {b}", "{b} was put forward by {a}", "the name of {b} was proposed by {a}"),
    ("{a} interviewed {b}", "{b} gave an interview to {a}", "{b} was interviewed by {a}"),
    ("{a} translated {b}", "{b} was put into another language by {a}", "{b} was translated by {a}"),
)
_SETTINGS = (
    "Both came from {t}.", "The news came out in {y}.", "It was talked about in {t} for weeks.",
    "{p} was there as well.", "{p} wrote about it in {y}.", "The two had met in {t} in {y}.",
)  # fmt: skip
_EFFECTS = (
    "the market in {t} was closed", "the ferry to {t} was late", "sales of {f} fell",
    "the concert in {t} was moved", "the bridge at {t} was shut", "work at {f} stopped",
    "the opening of the {w} Hotel was put off", "{p} left {f}", "the price of flour rose in {t}",
    "the {t} school was evacuated", "the harvest near {t} was poor", "{f} moved to {t}",
    "the {w} line stood still", "the vote in {t} was repeated", "{p} missed the final",
    "the {t} library lost half of its books",
)  # fmt: skip
_CAUSES = (
    "a burst pipe", "a strike of the drivers", "a shortage of paper", "heavy fog", "a late frost",
    "a fire in the cellar", "a change of the law", "a power failure", "a quarrel over money",
    "a landslide", "a broken crane", "a wrong forecast", "a flood", "an outbreak of measles",
    "a computer fault", "a rise of the rent", "a swarm of wasps", "a lost key",
)  # fmt: skip
_RULES = (
    "members of {f} may borrow five books", "visitors may park behind the {t} Museum",
    "the staff of {f} may work from home", "{f} pays the full price back",
    "delivery by {f} is free", "the pool in {t} is open to guests",
    "dogs are allowed on the beach at {t}", "{f} takes goods back",
    "the {w} Hotel serves breakfast", "overtime at {f} is paid double",
    "students enter the {t} Museum for free", "the road to {t} is open to lorries",
    "the {w} tablet may be taken twice a day", "photographs are allowed in the {t} Library",
    "{f} lends bicycles", "the insurance by {f} covers theft",
)  # fmt: skip
_CONDITIONS = (
    "on {d}", "in {m}", "with a permit", "after five o'clock", "before noon", "in winter",
    "with the consent of {p}", "for the first ten days", "with a receipt", "after a year",
    "for groups of six or more", "for those under eighteen", "during the holidays",
    "if a form is filled in", "if nobody else is waiting", "if it was agreed in writing",
)  # fmt: skip
# (one has it, one has it not, they have it)
_TRAITS = (
    ("has a garden", "has no garden", "have a garden"),
    ("is heated", "is not heated", "are heated"),
    ("passed the test", "failed the test", "passed the test"),
    ("opens on Sundays", "stays shut on Sundays", "open on Sundays"),
    ("takes cards", "takes cash alone", "take cards"),
    ("was insured", "was not insured", "were insured"),
    ("arrived in time", "arrived late", "arrived in time"),
    ("uses solar power", "uses no solar power", "use solar power"),
    ("was repaired", "is still broken", "were repaired"),
    ("has a lift", "has stairs only", "have a lift"),
    ("signed the petition", "did not sign the petition", "signed the petition"),
    ("was sold", "was not sold", "were sold"),
)
_GROUPS = (
    ("the {t} hall", "halls"), ("the {w} Hotel", "hotels"), ("{f}", "companies"),
    ("the {t} school", "schools"), ("the {w} Inn", "inns"), ("house {c}", "houses"),
    ("{t} {club}", "clubs"), ("the {t} depot", "depots"),
)  # fmt: skip
_COUNTS = ("none", "one", "two", "three", "four", "five")
_POSTS = (
    "the mayor of {t}", "the head of {f}", "the coach of {t} {club}", "the editor of the {t} Post",
    "the owner of the {w} Hotel", "the treasurer of {f}", "the speaker of project {w}",
)  # fmt: skip


def _fill(pattern: str, rng: Random) -> str:
    days, months = (draw_values(kind, 1, rng)[0].text for kind in ("weekday", "date"))
    text = pattern.replace("{d}", f"{days}s").replace("{m}", months.split(" ")[1])
    return draw_name(text.replace("{y}", str(rng.randrange(1951, 2024))), rng)


def make_roles(_: Setting, rng: Random) -> Case:
    """State who did something to whom, and turn it around, seen from either side."""
    act = rng.choice(_ACTS)
    a, b = draw_name("{p}", rng), draw_name("{p}", rng)
    if act[0].startswith(("{a} beat", "{a} sued", "{a} warned", "{a} overtook")):
        kind = rng.choice(("{p}", "{f}", "{t} {club}"))
        a, b = draw_name(kind, rng), draw_name(kind, rng)
    first, *said = rng.sample(act, 3)
    stated = capitalise(first.format(a=a, b=b))
    around = [_fill(each, rng) for each in rng.sample(_SETTINGS, rng.randint(1, 2))]
    knowledge = " ".join([f"{stated}.", *around])
    told = f"The knowledge says {quote(stated)}."
    rows = []
    for each in said:
        for (one, other), is_right in (((a, b), True), ((b, a), False)):
            text = end(each.format(a=one, b=other), ENGLISH, rng)
            rows.append(Row((knowledge,), None, text, is_right, told))
    return Case("roles", "general", tuple(rows))


def make_cause(_: Setting, rng: Random) -> Case:
    """Claim a cause that one world gives and the other only puts beside it."""
    effect = _fill(rng.choice(_EFFECTS), rng)
    cause, other = rng.sample(_CAUSES, 2)
    causal = rng.choice(
        (
            "{e} because of {c}",
            "{c} was the reason why {e}",
            "it was due to {c} that {e}",
            "{c} led to this: {e}",
        )
    )
    apart = rng.choice(
        (
            "In the same week there was talk of {c} in {t}",
            "Around that time {c} in {t} made the news",
            "Elsewhere, in {t}, people spoke of {c}",
            "Also reported from {t} that month: {c}",
        )
    )
    when = f"This was in {rng.randrange(1987, 2024)}."
    claims = ("{e} because of {c}", "{c} was why {e}", "the reason why {e} was {c}")
    silences = (
        f"why {effect} is not said", f"the text gives no reason why {effect}",
        f"it is open why {effect}", f"for what reason {effect} cannot be told from the text",
    )  # fmt: skip
    plain, stated = capitalise(effect), capitalise(causal.format(e=effect, c=cause))
    near, beside = (draw_name(apart.replace("{c}", each), rng) for each in (other, cause))
    more = f" {near}." if rng.random() < 0.5 else ""
    worlds = (f"{stated}. {when} {near}.", f"{plain}. {when}{more} {beside}.")
    claim = rng.choice(claims).format(e=effect, c=cause)
    question = f"Why is it that {effect}?" if rng.random() < 0.5 else None
    task = "general" if question is None else "qa"
    if question is None or rng.random() < 0.5:
        silence = rng.choice(silences)
    else:
        claim, silence = cause, rng.choice(ENGLISH.silences)
    return mirror(
        "cause",
        task,
        Side(
            (worlds[0],), question, end(claim, ENGLISH, rng), f"The knowledge says {quote(stated)}."
        ),
        Side((worlds[1],), question, end(silence, ENGLISH, rng), _no_reason(plain)),
    )


def _no_reason(effect: str) -> str:
    return f"The knowledge says {quote(effect)}, with no reason."


def make_condition(_: Setting, rng: Random) -> Case:
    """State a rule with a condition or without, and say it with it or without."""
    rule = _fill(rng.choice(_RULES), rng)
    condition, other = (_fill(each, rng) for each in rng.sample(_CONDITIONS, 2))
    more = capitalise(_fill(rng.choice(_RULES), rng))
    limited = rng.choice(("{r}, but only {c}", "only {c}: {r}", "{r} {c}, and not otherwise"))
    whole = rng.choice(("{r}, at any time and for everyone", "{r} without any condition", "{r}"))
    says_limited = rng.choice(("{r} only {c}", "{r}, though no more than {c}", "{r} {c} alone"))
    says_whole = rng.choice(("{r}", "{r} always", "{r}, whatever the circumstances"))
    if whole == "{r}":
        says_whole = whole
    worlds = [capitalise(limited.format(r=rule, c=condition))]
    answers = [says_limited.format(r=rule, c=condition)]
    if rng.random() < 0.6:
        worlds.append(capitalise(whole.format(r=rule)))
        answers.append(says_whole.format(r=rule))
    else:
        worlds.append(capitalise(limited.format(r=rule, c=other)))
        answers.append(says_limited.format(r=rule, c=other))
    is_first = rng.random() < 0.5
    sides = []
    for world, answer in zip(worlds, answers, strict=True):
        text = f"{world}. {more}." if is_first else f"{more}. {world}."
        told = f"The knowledge says {quote(world)}."
        sides.append(Side((text,), None, end(answer, ENGLISH, rng), told))
    return mirror("condition", "general", *sides)


def make_quantifier(_: Setting, rng: Random) -> Case:
    """Say how many of a group have a trait, in two worlds where different numbers have it."""
    has, lacks, they_have = rng.choice(_TRAITS)
    pattern, plural = rng.choice(_GROUPS)
    size = rng.randint(3, 5)
    names: dict[str, None] = {}
    while len(names) < size:
        names[draw_name(pattern, rng)] = None
    order, place = rng.sample(range(size), size), rng.sample(range(size), size)
    counts = rng.sample(range(size + 1), 2)
    if rng.random() < 0.6:
        counts = rng.choice(([size, size - 1], [0, 1], [size - 1, 1], [size, 0]))
    said = _quantify(counts, size, plural, they_have)
    sides = []
    for count, other in ((counts[0], counts[1]), (counts[1], counts[0])):
        lines = [
            f"{capitalise(name)} {has if place[i] < count else lacks}."
            for i, name in enumerate(names)
        ]
        knowledge = " ".join(lines[i] for i in order)
        true = [each.text for each in said if count in each.counts and other not in each.counts]
        told = f"By the knowledge, {count} of {size} {they_have}."
        sides.append(Side((knowledge,), None, end(rng.choice(true), ENGLISH, rng), told))
    return mirror("quantifier", "general", *sides)


@dataclass(frozen=True, slots=True)
class _Quantified:
    """A statement about a group, and for which numbers of its members it holds."""

    text: str
    counts: frozenset[int]


def _quantify(counts: Sequence[int], size: int, plural: str, have: str) -> list[_Quantified]:
    every, some = frozenset({size}), frozenset(range(1, size))
    said = [
        (f"all of the {plural} {have}", every),
        (f"the {plural} {have}, without exception", every),
        (f"none of the {plural} {have}", frozenset({0})),
        (f"not one of the {plural} is among those that {have}", frozenset({0})),
        (f"not all of the {plural} {have}", some | {0}),
        (f"some of the {plural} {have}, but not all", some),
        (f"at least one of the {plural} is among those that {have}", some | every),
        (f"only one of the {plural} is among those that {have}", frozenset({1})),
        (f"all but one of the {plural} {have}", frozenset({size - 1})),
    ]
    said += [
        (f"the number of {plural} that {have} is {_COUNTS[count]}", frozenset({count}))
        for count in counts
        if count
    ]
    return [_Quantified(text, held) for text, held in said]


def make_change(_: Setting, rng: Random) -> Case:
    """Ask who holds a post now and who held it before."""
    post = _fill(rng.choice(_POSTS), rng)
    old, new = draw_name("{p}", rng), draw_name("{p}", rng)
    start, turn = sorted(rng.sample(range(1992, 2024), 2))
    if turn - start < 2:
        turn = start + 2
    stated = rng.choice(
        (
            f"{capitalise(post)} was {old} from {start}. In {turn} {new} took over.",
            f"Since {turn}, {post} has been {new}. From {start} until then it was {old}.",
            f"In {start} {old} became {post}; {new} followed in {turn} and is still there.",
            f"{new} has been {post} since {turn}, after {old}, who had begun in {start}.",
        )
    )
    before = rng.randrange(start, turn - 1) + 1
    asks = (
        (f"Who is {post} now?", new),
        (f"Who was {post} in {before}?", old),
    )
    shape, seed = rng.randrange(3), rng.getrandbits(48)
    sides = []
    for question, who in asks:
        own = Random(seed)  # noqa: S311 - no secret hangs on it
        text = (who, f"It is about {who}", f"The name is {who}")[shape]
        told = f"The knowledge says {quote(stated)}. By the knowledge, the answer is {quote(who)}."
        sides.append(Side((stated,), question, end(text, ENGLISH, own), told))
    return mirror("change", "qa", *sides)
