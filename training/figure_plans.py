"""Which metrics are drawn together, and what to look for in them."""

from __future__ import annotations

from dataclasses import dataclass

# Okabe and Ito's palette, which most colour-blind readers can tell apart.
_BLUE, _ORANGE, _GREEN, _VERMILION, _PURPLE, _GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#777777",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One metric.

    Attributes:
        metric: Its name in ``metrics.jsonl``.
        label: Its name in the legend.
        colour: As ``#rrggbb``.
        is_dashed: It is what another line is compared with.
        is_noisy: In a long run, its running mean is drawn over it.
    """

    metric: str
    label: str
    colour: str
    is_dashed: bool = False
    is_noisy: bool = True


@dataclass(frozen=True, slots=True)
class Panel:
    """Metrics on one axis.

    Attributes:
        title: What they are.
        unit: Of the axis.
        lines: The metrics.
        is_share: The axis goes from 0 to 1.
        is_from_zero: The axis begins at 0.
        is_stacked: The metrics add up.
    """

    title: str
    unit: str
    lines: tuple[Line, ...]
    is_share: bool = False
    is_from_zero: bool = False
    is_stacked: bool = False


@dataclass(frozen=True, slots=True)
class FigurePlan:
    """Panels above each other.

    Attributes:
        name: For the file.
        title: Its heading.
        caption: What to look for.
        panels: From the top.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]


def _quality(prefix: str) -> tuple[Line, ...]:
    return (
        Line(f"{prefix}_f1", "F1", _BLUE),
        Line(f"{prefix}_precision", "precision", _ORANGE),
        Line(f"{prefix}_recall", "recall", _GREEN),
        Line(f"{prefix}_balanced_accuracy", "balanced accuracy", _VERMILION),
        Line(f"{prefix}_accuracy", "accuracy", _PURPLE),
    )


PLANS = (
    FigurePlan(
        "reward",
        "Reward, and groups that teach nothing",
        "A group whose replies all earn the same gives no gradient. The expected share is what "
        "equally hard prompts would show, p^G + (1 - p)^G for a share p of right replies and G "
        "replies a group. Far above it, the policy has made up its mind on each prompt.",
        (
            Panel(
                "Mean reward of the sampled replies", "reward", (Line("reward", "reward", _BLUE),)
            ),
            Panel(
                "Groups of equal rewards",
                "share of groups",
                (
                    Line("zero_variance_share", "observed", _VERMILION),
                    Line("expected_zero_variance_share", "expected", _GREY, is_dashed=True),
                ),
                is_share=True,
            ),
        ),
    ),
    FigurePlan(
        "quality",
        "Quality of the verdicts",
        "Hallucination is the positive class, and an unreadable reply is wrong. Always flagging "
        "balanced data has F1 0.667 and balanced accuracy 0.5. Training replies are sampled, "
        "validation replies are greedy. In a long run, a point of training is of several rows.",
        (
            Panel("Training", "", _quality("train"), is_share=True),
            Panel("Validation", "", _quality("validation"), is_share=True),
        ),
    ),
    FigurePlan(
        "verdicts",
        "What is answered",
        "A policy that drifts to one class leaves the share of that class in the data. Unreadable "
        "replies should be near 0.",
        (
            Panel(
                "Hallucination among the readable verdicts",
                "share",
                (
                    Line("predicted_hallucination_share", "training", _BLUE),
                    Line("validation_predicted_hallucination_share", "validation", _ORANGE),
                    Line("gold_hallucination_share", "in the data", _GREY, is_dashed=True),
                ),
                is_share=True,
            ),
            Panel(
                "Replies without a readable verdict",
                "share",
                (
                    Line("unreadable_rate", "training", _BLUE),
                    Line("validation_unreadable_rate", "validation", _ORANGE),
                ),
                is_from_zero=True,
            ),
        ),
    ),
    FigurePlan(
        "length",
        "Length of the replies",
        "Nothing in the reward for a verdict pays for a justification, so replies tend to shrink. "
        "A reply that is cut off has no verdict.",
        (
            Panel(
                "Tokens of a reply",
                "tokens",
                (
                    Line("completion_tokens_max", "longest", _ORANGE),
                    Line("completion_tokens_mean", "mean", _BLUE),
                ),
                is_from_zero=True,
            ),
            Panel(
                "Replies that were cut off",
                "share",
                (Line("truncated_share", "cut off", _VERMILION),),
                is_from_zero=True,
            ),
        ),
    ),
    FigurePlan(
        "policy",
        "Entropy and divergence",
        "Entropy that falls to 0 ends exploration; entropy that climbs ends in noise. The "
        "divergence is from the policy before this stage, where it is computed (rl.beta above 0).",
        (
            Panel(
                "Entropy", "nats a token", (Line("entropy", "entropy", _BLUE),), is_from_zero=True
            ),
            Panel("Divergence (KL)", "nats a token", (Line("kl", "KL", _PURPLE),)),
        ),
    ),
    FigurePlan(
        "time",
        "Time of a step",
        "Mean of the steps since the last row, without validation and checkpoints.",
        (
            Panel(
                "Seconds of a step",
                "s",
                (
                    Line("rollout_s", "rollout", _BLUE),
                    Line("score_s", "score", _ORANGE),
                    Line("update_s", "update", _GREEN),
                ),
                is_from_zero=True,
                is_stacked=True,
            ),
        ),
    ),
    FigurePlan(
        "optimisation",
        "Loss and optimiser",
        "The loss of a policy gradient says little: it is near 0 where rewards are centred in "
        "each group. In a warm start it should fall.",
        (
            Panel("Loss", "", (Line("loss", "loss", _BLUE),)),
            Panel(
                "Norm of the gradient",
                "",
                (Line("grad_norm", "norm", _VERMILION),),
                is_from_zero=True,
            ),
            Panel(
                "Learning rate",
                "",
                (Line("learning_rate", "learning rate", _GREY, is_noisy=False),),
                is_from_zero=True,
            ),
        ),
    ),
)
"""In the order of the page."""
