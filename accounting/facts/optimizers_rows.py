"""What a row of the optimizer registry says: slots of state, constants, step temporary, options, caveat.

A row holds no code. State is a sum of slots; a slot is `count` buffers of an *extent* (how many elements, by the
tensor's shape) in a *storage* (how many bytes those elements take) for the tensors *where* a predicate holds. Extents,
storages and predicates are the few functions of `accounting.optimizer_laws`, named here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Scalar = bool | int | float | str | None
OptionValue = Scalar | tuple[str, ...] | tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option a request may give; `default` is the library's."""

    name: str
    kind: str
    """`number`, `integer`, `boolean`, `choice`, `names` (a list of strings), `numbers` (a list of numbers)."""
    default: OptionValue = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    nullable: bool = False
    choices: tuple[str, ...] = ()
    multiple_of: int | None = None
    required: bool = False
    """True where the library itself refuses to start without it."""
    changes_bytes: bool = True
    """False for an option that is accepted and changes no byte."""
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """`count` buffers per tensor."""

    name: str
    extent: str = "full"
    storage: str = "parameter"
    count: int = 1
    where: str = "all"
    when: str | None = None
    """Condition on one option: `name` (truthy), `!name` (falsy), `?name` (not null) or `name=value`; None =
    always."""
    parameter_bytes: int | None = None
    """Exists only where the stepped parameters have this item size; None = any."""
    host: bool = False
    """Kept in host memory whatever holds the parameter (torch's `step`)."""
    device_when: tuple[str, ...] = ()
    """Options that move a host slot to the parameter's device (`fused`, `capturable`)."""
    whole: bool = False
    """Made from the gathered matrix under FSDP2, so that every rank keeps all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Bytes held once per optimizer or per parameter group, whatever the tensors."""

    name: str
    bytes: int
    per: str = "optimizer"
    """`optimizer`, `group`, or `pair` (of LBFGS's history)."""
    host: bool = False
    when: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporary:
    """What a step allocates beside the states, by implementation."""

    kind: str = "single-tensor"
    """`foreach` (a copy of all tensors at once), `single-tensor` (of the largest one at a time), `fused` (none),
    `newton-schulz` (of the largest matrix, by a law of its own)."""
    copies: float = 0.0
    """Copies of all tensors (`foreach`) or of the largest one."""
    itemsize: int | None = None
    """Bytes per element of a copy; None = the stepped parameter's."""
    half_copies: float | None = None
    """Copies instead, where the stepped parameters are 16-bit; None = the same number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """One row: how a library's optimizer holds and steps its states."""

    name: str
    """Key of the contract; a library's variant is a suffix."""
    library: str
    library_version: str
    title: str
    """The class as the library spells it."""
    slots: tuple[Slot, ...] = ()
    constants: tuple[Constant, ...] = ()
    options: tuple[Option, ...] = ()
    aliases: tuple[str, ...] = ()
    state_rule: str = "parameter"
    """Dtype of the moments: `parameter` (of what is stepped), `fp32`, `fixed` (quantised, or a dtype of its own)."""
    temporaries: tuple[Temporary, ...] = (Temporary(copies=1.0),)
    """Default implementation first; the others by option (`foreach`, `fused`)."""
    moved_elements: float | None = None
    """Elements read and written per parameter in one step of the default implementation; None = each state, parameter
    and gradient once (a fused kernel)."""
    paged: bool = False
    """State of tensors of >= 100,000 elements lives in managed memory, which can move to the host."""
    paged_minimum: int = 100_000
    allocated_at_init: bool = False
    """States exist before the first step, also for tensors that never get a gradient."""
    frees_gradients: bool = False
    """Updates inside backward: at most one tensor's gradient is alive."""
    needs_matrices: bool = False
    """Must see whole 2-D tensors: refuses, or degrades to its fallback, under flat shards (FSDP1, DeepSpeed)."""
    parameter_dtypes: tuple[str, ...] = ()
    """Dtypes of the stepped parameters the library accepts; empty = any floating one."""
    measured: bool = True
    """False where the rule was read in the source and no run has confirmed it."""
    source: str = ""
    caveat: str = ""
    """What a user must know before choosing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """Another library's name for a row with some options set (`transformers.TrainingArguments(optim=...)`)."""

    name: str
    optimizer: str
    options: Mapping[str, OptionValue] = field(default_factory=dict)


STEP = Slot(name="step", extent="scalar", storage="fp32", host=True, device_when=("fused", "capturable"))
"""torch's 0-d fp32 counter: on the host unless a kernel on the device must read it."""


STEPS_RUN = Option(
    name="steps",
    kind="integer",
    minimum=1,
    nullable=True,
    help="Optimizer steps already run, where the state grows over the first ones; null = grown full.",
)


def moments(
    count: int, storage: str = "parameter", *, where: str = "all", when: str | None = None, whole: bool = False
) -> Slot:
    """`count` full-size buffers per tensor."""
    return Slot(name="moments", count=count, storage=storage, where=where, when=when, whole=whole)


def momentum_option(*, required: bool = False, default: float = 0.0) -> Option:
    """SGD-like momentum; zero keeps no buffer, and a library that needs it says so by `required`."""
    return Option(
        name="momentum",
        kind="number",
        default=None if required else default,
        minimum=0.0,
        maximum=1.0,
        exclusive_minimum=required,
        exclusive_maximum=True,
        required=required,
        help="Momentum factor; above zero it keeps one buffer the size of the parameters.",
    )


def flag(name: str, text: str, *, default: bool = False, changes_bytes: bool = True) -> Option:
    """A yes-or-no option."""
    return Option(name=name, kind="boolean", default=default, changes_bytes=changes_bytes, help=text)


def rate(name: str, default: float, text: str, *, nullable: bool = False) -> Option:
    """A coefficient in [0, 1)."""
    return Option(
        name=name,
        kind="number",
        default=None if nullable else default,
        minimum=0.0,
        maximum=1.0,
        exclusive_maximum=True,
        nullable=nullable,
        help=text,
    )


def size(name: str, default: int, text: str, *, minimum: int = 1, multiple_of: int | None = None) -> Option:
    """A whole number."""
    return Option(name=name, kind="integer", default=default, minimum=minimum, multiple_of=multiple_of, help=text)
