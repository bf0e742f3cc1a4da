"""Where each library of the registry keeps its optimizers."""

MODULES = {
    "torch": "torch.optim",
    "transformers": "transformers.optimization",
    "bitsandbytes": "bitsandbytes.optim",
    "torchao": "torchao.optim.adam",
    "lion-pytorch": "lion_pytorch",
    "came-pytorch": "came_pytorch",
    "schedulefree": "schedulefree",
    "prodigyopt": "prodigyopt",
    "adan-pytorch": "adan_pytorch",
    "sophia-opt": "sophia_opt",
    "grams-pytorch": "grams",
    "adamw-bf16": "adamw_bf16",
    "torch-optimi": "optimi",
    "adam-mini": "adam_mini",
    "lomo-optim": "lomo_optim",
    "galore-torch": "galore_torch",
    "apollo-torch": "apollo_torch",
    "pytorch_optimizer": "pytorch_optimizer",
    "heavyball": "heavyball",
}
