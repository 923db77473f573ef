"""Pairs about single facts of a scene, in any form and language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from training.evidence import NO_ANSWER
from training.made.cases import (
    Case,
    Row,
    Side,
    end,
    join,
    justify_answer,
    justify_fact,
    mirror,
    pick_two,
    voice,
)
from training.made.forms import Form, Shown, show
from training.made.scenes import Domain, Scene, Spot, bare_name, capitalise, draw_scene


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a maker finds its scene.

    Attributes:
        domains: One is chosen.
        forms: One is chosen.
        num_entities: Least and most entities.
        num_attributes: Least and most attributes.
        kind: In the place of the maker's own kind where it is not empty.
        max_facts: Facts of a scene, as far as the least numbers permit it.
    """

    domains: Sequence[Domain]
    forms: Sequence[Form]
    num_entities: tuple[int, int] = (2, 4)
    num_attributes: tuple[int, int] = (1, 3)
    kind: str = ""
    max_facts: int = 8

    def draw(self, rng: Random, least_attributes: int = 1) -> Scene:
        """Return a scene."""
        low, high = self.num_attributes
        num_entities = rng.randint(*self.num_entities)
        wanted = rng.randint(max(low, least_attributes), max(high, least_attributes))
        most = max(low, least_attributes, self.max_facts // num_entities)
        return draw_scene(self.domains, num_entities, min(wanted, most), rng)

    def show(self, rng: Random) -> Callable[[Scene], Shown]:
        """Return what shows a scene and its mirror alike."""
        form, seed = rng.choice(self.forms), rng.getrandbits(48)
        return lambda scene: show(scene, form, seed)

    def name(self, kind: str) -> str:
        """Return the kind of a case."""
        return self.kind or kind


def make_other_entity(setting: Setting, rng: Random) -> Case:
    """Ask for one attribute of two entities: each value answers one question alone."""
    scene = setting.draw(rng)
    k = rng.randrange(len(scene.attributes))
    i, j = pick_two(scene, k, rng)
    knowledge = setting.show(rng)(scene).texts
    rows = []
    for own, other in ((i, j), (j, i)):
        question = scene.ask((own, k), rng)
        right, wrong = scene.value((own, k)), scene.value((other, k))
        side = Side(knowledge, question, "", justify_answer(right.text))
        told = scene.say((own, k), rng, wrong)
        # A true sentence that answers the other question is wrong here too.
        if rng.random() < 0.3:
            told = scene.say((other, k), rng)
        said = scene.say((own, k), rng)
        shape = rng.getrandbits(48)
        rows += [
            side.row(voice(right.text, said, scene.tongue, _rng(shape)), True),
            side.row(voice(wrong.text, told, scene.tongue, _rng(shape)), False),
        ]
    return Case(setting.name("other-entity"), "qa", tuple(rows))


def make_other_attribute(setting: Setting, rng: Random) -> Case:
    """Ask for two attributes of one entity: each value stands there, and answers one question."""
    scene = setting.draw(rng, least_attributes=2)
    k, m = rng.sample(range(len(scene.attributes)), 2)
    i = rng.randrange(len(scene.entities))
    knowledge = setting.show(rng)(scene).texts
    sides = [
        Side(
            knowledge,
            scene.ask((i, each), rng),
            voice(scene.value((i, each)).text, scene.say((i, each), rng), scene.tongue, rng),
            justify_answer(scene.value((i, each)).text),
        )
        for each in (k, m)
    ]
    return mirror(setting.name("other-attribute"), "qa", *sides)


def make_other_world(setting: Setting, rng: Random) -> Case:
    """Ask the same of two worlds that differ in who has which value."""
    scene = setting.draw(rng)
    k = rng.randrange(len(scene.attributes))
    i, j = pick_two(scene, k, rng)
    shown = setting.show(rng)
    question = scene.ask((i, k), rng)
    sides = []
    for world in (scene, scene.swap(k, i, j)):
        value = world.value((i, k)).text
        right = voice(value, world.say((i, k), rng), scene.tongue, rng)
        sides.append(Side(shown(world).texts, question, right, justify_answer(value)))
    return mirror(setting.name("other-entity"), "qa", *sides)


def make_claims(setting: Setting, rng: Random) -> Case:
    """Claim the values of two entities of each of them; two of the four claims may be denials."""
    scene = setting.draw(rng)
    k = rng.randrange(len(scene.attributes))
    i, j = pick_two(scene, k, rng)
    shown = setting.show(rng)(scene)
    is_denied = rng.random() < 0.5
    rows = []
    for own, other, is_turned in ((i, j, False), (j, i, is_denied)):
        for spot, is_true in (((own, k), True), ((other, k), False)):
            claim = scene.say((own, k), rng, scene.value(spot))
            if is_turned:
                claim = _deny(scene, claim, (own, k), scene.value(spot).text, rng)
            response = end(claim, scene.tongue, rng)
            told = justify_fact(scene, shown, (own, k))
            rows.append(Row(shown.texts, None, response, is_true != is_turned, told))
    kind = "negation" if is_denied else "claims"
    return Case(setting.name(kind), "general", tuple(rows))


def _deny(scene: Scene, claim: str, spot: Spot, value: str, rng: Random) -> str:
    """Return the denial of a claim."""
    if scene.tongue.code == "en" and rng.random() < 0.4:
        label, entity = scene.attributes[spot[1]].label, scene.entities[spot[0]]
        forms = (
            f"the {label} of {entity} is not {value}",
            f"{value} is not the {label} of {entity}",
            f"the {label} of {entity} is something other than {value}",
        )
        return rng.choice(forms)
    return rng.choice(scene.tongue.denials).replace("{s}", claim)


def make_yes_no(setting: Setting, rng: Random) -> Case:
    """Ask whether a true and a false statement hold."""
    scene = setting.draw(rng)
    tongue = scene.tongue
    k = rng.randrange(len(scene.attributes))
    i, j = pick_two(scene, k, rng)
    shown = setting.show(rng)(scene)
    told = justify_fact(scene, shown, (i, k))
    check, form = rng.choice(tongue.checks), rng.randrange(len(tongue.yes))
    rows = []
    for spot, is_true in (((i, k), True), ((j, k), False)):
        claim = scene.say((i, k), rng, scene.value(spot))
        is_first = check.startswith("{s}") or ": {s}" in check or check.endswith("{s}")
        question = check.replace("{s}", capitalise(claim) if is_first else claim)
        for said, is_yes in ((tongue.yes[form], True), (tongue.no[form], False)):
            text = end(said.replace("{s}", claim), tongue, rng)
            rows.append(Row(shown.texts, question, text, is_yes is is_true, told))
    return Case(setting.name("yes-no"), "qa", tuple(rows))


def make_silence(setting: Setting, rng: Random) -> Case:
    """Ask for a fact that one world gives, and the other gives of another entity."""
    scene = setting.draw(rng, least_attributes=2)
    k = rng.randrange(len(scene.attributes))
    i, j = pick_two(scene, k, rng)
    value = scene.value((i, k))
    shown = setting.show(rng)
    given = scene.hide((j, k))
    silent = scene.with_value((j, k), value).hide((i, k))
    question = scene.ask((i, k), rng)
    answer = voice(value.text, scene.say((i, k), rng), scene.tongue, rng)
    silence = rng.choice(scene.tongue.silences)
    if scene.tongue.code == "en" and rng.random() < 0.4:
        silence = rng.choice(_SILENT_ABOUT).format(
            label=scene.attributes[k].label, entity=scene.entities[i]
        )
    return mirror(
        setting.name("silence"),
        "qa",
        Side(shown(given).texts, question, answer, justify_answer(value.text)),
        Side(shown(silent).texts, question, end(silence, scene.tongue, rng), NO_ANSWER),
    )


_SILENT_ABOUT = (
    "the {label} of {entity} is not given",
    "nothing is said about the {label} of {entity}",
    "the text leaves open what the {label} of {entity} is",
    "the {label} of {entity} cannot be taken from the text",
)


def make_addition(setting: Setting, rng: Random) -> Case:
    """Say something that is there, and add what only one of two worlds says."""
    scene = setting.draw(rng, least_attributes=2)
    k, m = rng.sample(range(len(scene.attributes)), 2)
    i, j = pick_two(scene, m, rng)
    shown = setting.show(rng)
    base = scene.say((i, k), rng)
    sides = []
    for own, other in ((i, j), (j, i)):
        world = scene.hide((other, m))
        said = shown(world)
        added = scene.say((own, m), rng)
        text = join((base, added), scene.tongue) if rng.random() < 0.5 else f"{base}, and {added}"
        if scene.tongue.code != "en":
            text = join((base, added), scene.tongue)
        told = justify_fact(world, said, (own, m))
        sides.append(Side(said.texts, None, end(text, scene.tongue, rng), told))
    return mirror(setting.name("addition"), "general", *sides)


def make_summary(setting: Setting, rng: Random) -> Case:
    """Sum up several facts of two worlds that differ in one place."""
    scene = setting.draw(rng, least_attributes=2)
    k = rng.randrange(len(scene.attributes))
    i, j = pick_two(scene, k, rng)
    shown = setting.show(rng)
    spots = [(e, a) for e in range(len(scene.entities)) for a in range(len(scene.attributes))]
    others = [spot for spot in spots if spot not in ((i, k), (j, k))]
    most = 6 if setting.kind == "long" else 3
    chosen = rng.sample(others, min(len(others), rng.randint(1, most)))
    told = sorted([(i, k), *chosen])
    sides = []
    for world in (scene, scene.swap(k, i, j)):
        text = join([world.say(spot, rng) for spot in told], scene.tongue)
        said = shown(world)
        told_fact = justify_fact(world, said, (i, k))
        sides.append(Side(said.texts, None, end(text, scene.tongue, rng), told_fact))
    return mirror(setting.name("summary"), "summarization", *sides)


def make_partial(setting: Setting, rng: Random) -> Case:
    """Ask for two attributes at once, of two entities: half of a wrong answer is right."""
    scene = setting.draw(rng, least_attributes=2)
    k, m = rng.sample(range(len(scene.attributes)), 2)
    i, j = pick_two(scene, k, rng)
    shown = setting.show(rng)
    labels = f"the {scene.attributes[k].label} and the {scene.attributes[m].label}"
    entity = scene.entities[i]
    asks = (f"What are {labels} of {entity}?", f"Tell me {labels} of {entity}.")
    question, shape = rng.choice(asks), rng.randrange(3)
    sides = []
    for world in (scene, scene.swap(k, i, j)):
        first, second = world.value((i, k)).text, world.value((i, m)).text
        text = (
            f"{first} and {second}",
            f"{world.say((i, k), rng)}, and {world.say((i, m), rng)}",
            f"{scene.attributes[k].label}: {first}; {scene.attributes[m].label}: {second}",
        )[shape]
        said = shown(world)
        told = f'By the knowledge, the answer is "{first}" and "{second}".'
        sides.append(Side(said.texts, question, end(text, scene.tongue, rng), told))
    return mirror(setting.name("partial"), "qa", *sides)


def make_off_target(setting: Setting, rng: Random) -> Case:
    """Put a true sentence in other words beside one that stands there and answers nothing asked.

    Not mirrored: here alone what stands word for word is wrong. ``make_near`` makes up for it.
    """
    scene = setting.draw(rng, least_attributes=2)
    form, seed = rng.choice((Form.PROSE, Form.DOCUMENTS)), rng.getrandbits(48)
    shown = show(scene, form, seed)
    k, m = rng.sample(range(len(scene.attributes)), 2)
    i = rng.randrange(len(scene.entities))
    others = [e for e in range(len(scene.entities)) if e != i]
    own = shown.sentences[(i, k)]
    says = [scene.say((i, k), rng) for _ in range(8)]
    right = next((text for text in says if capitalise(text) not in own), says[0])
    wrong = shown.sentences[(i, m) if rng.random() < 0.5 else (rng.choice(others), k)]
    side = Side(
        shown.texts, scene.ask((i, k), rng), right, justify_answer(scene.value((i, k)).text)
    )
    coin = rng.getrandbits(48)
    rows = (
        side.row(end(right, scene.tongue, _rng(coin)), True),
        side.row(end(wrong, scene.tongue, _rng(coin)), False),
    )
    return Case(setting.name("off-target"), "qa", rows)


def make_near(setting: Setting, rng: Random) -> Case:
    """Put what stands there word for word beside a value that stands nowhere."""
    scene = setting.draw(rng)
    k = rng.randrange(len(scene.attributes))
    # A last entity that the knowledge leaves out lends its value.
    i, j = pick_two(scene, k, rng)
    form, seed = rng.choice((Form.PROSE, Form.DOCUMENTS)), rng.getrandbits(48)
    world = scene.hide(*((j, each) for each in range(len(scene.attributes))))
    shown = show(world, form, seed)
    right, wrong = scene.value((i, k)).text, scene.value((j, k)).text
    own = shown.sentences[(i, k)]
    answers = (right, wrong) if rng.random() < 0.5 else (own, own.replace(right, wrong))
    coin = rng.getrandbits(48)
    side = Side(shown.texts, scene.ask((i, k), rng), "", justify_answer(right))
    rows = tuple(
        side.row(end(text, scene.tongue, _rng(coin)), is_right)
        for text, is_right in zip(answers, (True, False), strict=True)
    )
    return Case(setting.name("near"), "qa", rows)


def make_dialogue(setting: Setting, rng: Random) -> Case:
    """Ask in the last turn of a conversation whose other turns are about another fact."""
    scene = setting.draw(rng, least_attributes=2)
    k, m = rng.sample(range(len(scene.attributes)), 2)
    i, j = pick_two(scene, k, rng)
    shown = setting.show(rng)
    earlier = f"User: {scene.ask((i, m), rng)}\nAssistant: {capitalise(scene.say((i, m), rng))}."
    question = f"{earlier}\nUser: {rng.choice(_TURNS)}{scene.ask((i, k), rng)}"
    reply = rng.choice(_REPLIES)
    sides = []
    for world in (scene, scene.swap(k, i, j)):
        said = reply.format(told=world.say((i, k), rng), value=world.value((i, k)).text)
        told = justify_answer(world.value((i, k)).text)
        sides.append(Side(shown(world).texts, question, end(said, scene.tongue, rng), told))
    return mirror(setting.name("dialogue"), "dialogue", *sides)


_TURNS = ("", "Thanks. ", "Good to know. ", "And one more thing. ", "I see. ")
_REPLIES = (
    "Sure: {told}",
    "Of course, {told}. Is there anything else",
    "I looked it up for you, it is {value}",
    "Good question! As far as I can see, {told}",
    "That would be {value}",
    "{told}, in case you want to write it down",
)


def _rng(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - no secret hangs on it


def name_entity(scene: Scene, entity: int) -> str:
    """Return an entity as a question names it, without its article."""
    return bare_name(scene.entities[entity])
