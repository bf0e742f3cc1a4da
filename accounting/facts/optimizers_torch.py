"""torch.optim: moments take the dtype of what is stepped, scalars are 0-d fp32 tensors.

State bytes measured on CPU, fp32 and bf16, on odd-shaped tensor lists and on real transformers. Copies of a step
temporary: the peak of live storages through the second step, default options.
"""

from __future__ import annotations

from typing import Any

from accounting.facts.optimizers_rows import (
    STEP,
    STEPS_RUN,
    Constant,
    Optimizer,
    Slot,
    Temporary,
    flag,
    moments,
    momentum_option,
    size,
)

_VERSION = "2.13.0"
_SOURCE = "measured with torch 2.13.0"
_FOREACH = flag("foreach", "Multi-tensor kernels (the default on CUDA) hold copies of all tensors.", default=True)
_FUSED = flag("fused", "One fused kernel: no temporary, `step` moves to the device.")
_CAPTURABLE = flag("capturable", "For CUDA graphs: `step` lives on the device.")
_TENSOR_LR = flag("tensor_lr", "The learning rate is a tensor: four bytes per parameter group.")
_LR = Constant(name="lr", bytes=4, per="group", host=True, when="tensor_lr")
_AMSGRAD = flag("amsgrad", "Keeps the maximum of the second moment: one more buffer.")
_ADAM_OPTIONS = (_AMSGRAD, _FOREACH, _FUSED, _CAPTURABLE, _TENSOR_LR)
_ADAM_SLOTS = (moments(2), moments(1, when="amsgrad"), STEP)
_FOLLOWS = "The moments follow the parameters' dtype: bf16 weights without an fp32 master train with bf16 moments."
_FUSED_KERNEL = Temporary(kind="fused")


def _scalar(name: str) -> Slot:
    return Slot(name=name, extent="scalar", storage="fp32")


def _copies(foreach: float, loop: float) -> tuple[Temporary, ...]:
    return (Temporary(kind="foreach", copies=foreach), Temporary(copies=loop))


def _torch(name: str, title: str, slots: tuple[Slot, ...], **fields: Any) -> Optimizer:
    row: dict[str, Any] = {
        "library": "torch",
        "library_version": _VERSION,
        "source": f"{_SOURCE}: torch.optim.{title}",
        "options": (_FOREACH, _CAPTURABLE),
        "temporaries": _copies(1.0, 2.0),
        **fields,
    }
    return Optimizer(name=name, title=title, slots=slots, **row)


TORCH_ROWS = (
    _torch(
        "sgd",
        "SGD",
        (moments(1, when="momentum"),),
        options=(momentum_option(), flag("nesterov", "Needs momentum.", changes_bytes=False), _FOREACH, _FUSED),
        temporaries=(*_copies(0.0, 0.0), _FUSED_KERNEL),
        caveat="Holds no state without momentum, and then converges slowly or not at all on most transformers.",
    ),
    _torch(
        "adam",
        "Adam",
        _ADAM_SLOTS,
        options=_ADAM_OPTIONS,
        constants=(_LR,),
        temporaries=(*_copies(1.0, 2.0), _FUSED_KERNEL),
        moved_elements=20,
        caveat=_FOLLOWS,
    ),
    _torch(
        "adamw",
        "AdamW",
        _ADAM_SLOTS,
        options=_ADAM_OPTIONS,
        constants=(_LR,),
        temporaries=(*_copies(1.0, 2.0), _FUSED_KERNEL),
        moved_elements=20,
        aliases=("adamw-torch", "adamw-torch-fused"),
        caveat=_FOLLOWS,
    ),
    _torch(
        "nadam",
        "NAdam",
        (
            moments(2),
            STEP,
            Slot(name="mu_product", extent="scalar", storage="fp32", host=True, device_when=("capturable",)),
        ),
    ),
    _torch("radam", "RAdam", (moments(2), STEP)),
    _torch("adamax", "Adamax", (moments(2), STEP), temporaries=_copies(1.0, 1.0)),
    _torch("adadelta", "Adadelta", (moments(2), STEP), temporaries=_copies(2.0, 2.0)),
    _torch(
        "rprop",
        "Rprop",
        (moments(2), STEP),
        temporaries=_copies(1.75, 3.0),
        caveat="For full-batch training only: it reads the gradient's sign.",
    ),
    _torch(
        "adagrad",
        "Adagrad",
        (moments(1), STEP),
        options=(_FOREACH, _FUSED),
        temporaries=(*_copies(2.0, 1.0), _FUSED_KERNEL),
        allocated_at_init=True,
        caveat="Allocates its state when it is built, also for parameters that never get a gradient.",
    ),
    _torch(
        "rmsprop",
        "RMSprop",
        (moments(1), moments(1, when="momentum"), moments(1, when="centered"), STEP),
        options=(
            momentum_option(),
            flag("centered", "Keeps the mean of the gradient too: one more buffer."),
            _FOREACH,
            _CAPTURABLE,
        ),
        temporaries=_copies(1.0, 1.0),
    ),
    _torch(
        "asgd",
        "ASGD",
        (moments(1), _scalar("step"), _scalar("eta"), _scalar("mu")),
        temporaries=_copies(1.0, 0.0),
        caveat="Its three scalars live on the device, one of each per tensor.",
    ),
    _torch(
        "adafactor",
        "Adafactor",
        (
            Slot(name="factors", extent="factored", where="matrix"),
            Slot(name="second_moment", where="vector"),
            STEP,
        ),
        options=(flag("foreach", "Multi-tensor kernels; off by default because they cost memory."),),
        temporaries=(Temporary(copies=1.0), Temporary(kind="foreach", copies=1.0)),
        caveat="The second moment of a matrix is a rank-1 approximation (row and column means) in the parameters' "
        "dtype, and there is no first moment.",
    ),
    _torch(
        "muon",
        "Muon + AdamW",
        (
            Slot(name="momentum", where="hidden"),
            Slot(name="moments", count=2, where="not_hidden"),
            Slot(
                name="step",
                extent="scalar",
                storage="fp32",
                where="not_hidden",
                host=True,
                device_when=("fused", "capturable"),
            ),
        ),
        options=(size("ns_steps", 5, "Newton-Schulz iterations of one step (compute only)."),),
        temporaries=(Temporary(kind="newton-schulz"),),
        needs_matrices=True,
        caveat="A hybrid: Muon steps the hidden matrices (one momentum buffer), AdamW the embeddings, head, norms and "
        "biases. Muon needs whole 2-D matrices: flat shards (FSDP1, DeepSpeed) destroy them.",
    ),
    _torch(
        "sparse-adam",
        "SparseAdam",
        (moments(2),),
        options=(),
        temporaries=(Temporary(copies=0.0),),
        caveat="For sparse gradients only; its moments are dense all the same.",
    ),
    _torch(
        "lbfgs",
        "LBFGS",
        (Slot(name="history", extent="history"),),
        constants=(
            Constant(name="curvatures", bytes=8, per="pair"),
            Constant(name="scaling", bytes=4),
        ),
        options=(
            size("history_size", 100, "Pairs of steps and gradient changes kept."),
            size("max_iter", 20, "Inner iterations of one step; the history grows with each.", minimum=2),
            STEPS_RUN,
        ),
        temporaries=(Temporary(kind="foreach", copies=3.0),),
        caveat="State is a history of full-size vectors, not a number of bytes per parameter; it needs a closure that "
        "recomputes the loss several times a step.",
    ),
)
