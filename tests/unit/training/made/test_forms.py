"""Knowledge in every form holds all facts of its scene and none of the hidden ones."""

from __future__ import annotations

import json
from random import Random

import pytest

from training.made.forms import PLAIN, Form, show
from training.made.scenes import (
    Scene,
    bare_name,
    draw_scene,
    english_domains,
    foreign_domains,
)


def draw(seed: int) -> Scene:
    return draw_scene(english_domains(), 3, 2, Random(seed))


@pytest.mark.parametrize("form", Form, ids=str)
def test_every_fact_is_shown_but_for_the_hidden(form: Form) -> None:
    for seed in range(30):
        scene = draw(seed)
        text = "\n".join(show(scene, form, seed).texts)
        hidden = "\n".join(show(scene.hide((1, 0)), form, seed).texts)
        for i, entity in enumerate(scene.entities):
            assert bare_name(entity).lower() in text.lower()
            for k in range(2):
                value = scene.value((i, k)).text.lower()
                assert value in text.lower()
                if (i, k) != (1, 0):
                    assert value in hidden.lower()
        assert len(hidden) < len(text)


@pytest.mark.parametrize("form", Form, ids=str)
def test_mirrored_scenes_differ_in_their_values_alone(form: Form) -> None:
    scene = draw(4)
    one, other = (show(each, form, 9) for each in (scene, scene.swap(1, 0, 2)))
    assert one.texts != other.texts
    assert sorted("".join(one.texts).lower()) == sorted("".join(other.texts).lower())


def test_sentences_stand_in_the_knowledge() -> None:
    for domains in (english_domains(), foreign_domains()):
        for seed in range(40):
            scene = draw_scene(domains, 3, 2, Random(seed))
            shown = show(scene, Form.DOCUMENTS, seed)
            assert len(shown.texts) == 3
            assert set(shown.sentences) == {(i, k) for i in range(3) for k in range(2)}
            for (i, _), sentence in shown.sentences.items():
                assert sentence in shown.texts[i]


def test_json_can_be_read_and_a_table_has_a_row_for_each() -> None:
    scene = draw(5)
    (items,) = json.loads(show(scene, Form.JSON, 1).texts[0]).values()
    assert [item["name"] for item in items] == [bare_name(name) for name in scene.entities]
    assert show(scene, Form.TABLE, 1).texts[0].count("\n") == 4


def test_every_language_can_be_shown_in_plain_forms() -> None:
    codes = {each.tongue.code for each in foreign_domains()}
    assert codes == {"de", "fr", "es", "it", "pt", "zh"}
    for domain in foreign_domains():
        scene = draw_scene([domain], 2, 2, Random(1))
        texts = [show(scene, form, 1).texts for form in PLAIN]
        assert len(set(texts)) >= 4


def test_there_are_many_domains_each_with_several_wordings() -> None:
    assert len(english_domains()) >= 25
    for domain in english_domains():
        for attribute in domain.attributes:
            assert len(attribute.asks) >= 2
            assert len(attribute.says) >= 3
            assert all("{e}" in ask for ask in attribute.asks)
            assert all("{e}" in say and "{v}" in say for say in attribute.says)
    for domain in foreign_domains():
        for attribute in domain.attributes:
            assert all("{e}" in say and "{v}" in say for say in attribute.says)
