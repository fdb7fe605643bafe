"""Read a model's shape from the ``config.json`` of a Hugging Face repository.

Field names differ between architectures; the first that is there counts. What a shape cannot express (layers of
different widths, attention of other kinds) is refused by name, never approximated. A vision tower is left out.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .model import Model

_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
_TOP_K = ("num_experts_per_tok", "experts_per_token", "moe_topk", "moe_top_k")
_PATTERN = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
# MXFP4 stores a scale of 8 bits per 32 values of 4 bits.
_PUBLISHED_BITS = {"mxfp4": 4.25}
_LAYER_TYPES = {
    *("full_attention", "sliding_attention", "chunked_attention", "linear_attention"),
    "deepseek_sparse_attention",  # latent attention with its indexer, as all layers of such a model
}
_UNKNOWN = {
    "attn_module_list_cfg": "an attention of its own per layer",
    "block_configs": "layers of different widths",
    "kda_num_heads": "Kimi delta attention",
    "linear_attn_config": "Kimi delta attention",
    "compress_ratios": "compressed attention",
    "swa_num_attention_heads": "windowed layers with other heads",
    "global_head_dim": "layers with different head dimensions",
    "attention_other_setting": "layers with different heads",
    "sparse_attention_config": "block-sparse attention",
}


class ConfigError(ValueError):
    """A ``config.json`` that is no shape; the message names file, field and remedy."""


def is_config(name: str) -> bool:
    """Return whether a model's name is the path of a configuration, or of a folder that may hold one."""
    return name.endswith(".json") or Path(name).is_dir()


def read_config(path: str | Path) -> Model:
    """Return the shape in a ``config.json``, or in that of a folder.

    Raises
    ------
    ConfigError
        If the file cannot be read, lacks a field, or describes layers that a shape cannot express.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{file}: is not JSON ({error})") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{file}: is not the configuration of a model")
    quantized = data.get("quantization_config")
    for inner in ("text_config", "language_config", "llm_config"):
        if isinstance(data.get(inner), dict):
            data = {**data, **data[inner]}
    named = file.parent.name if file.name == "config.json" else file.name.removesuffix(".json").removesuffix("_config")
    return _Config(data, file, named or "custom", quantized).model()


class _Config:
    def __init__(self, data: dict[str, Any], file: Path, name: str, quantized: Any) -> None:
        self.data, self.file, self.name = data, file, name
        self.quantized = quantized if isinstance(quantized, dict) else {}

    def _error(self, text: str) -> ConfigError:
        return ConfigError(f"{self.file}: {text}; or write the shape out under model: in the scenario")

    def _get(self, *names: str, default: Any = None) -> Any:
        return next((self.data[n] for n in names if self.data.get(n) is not None), default)

    def _number(self, *names: str) -> int:
        value = self._get(*names)
        if value is None:
            raise self._error(f"lacks {' or '.join(names)}; add it")
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise self._error(f"{names[0]} = {value!r} is not a whole number")
        return int(value)

    def model(self) -> Model:
        for field, what in _UNKNOWN.items():
            if self._get(field):
                raise self._error(f"{field}: {what} is not known here")
        kinds = self._layers()
        shape: dict[str, Any] = {
            "name": self.name,
            "hidden": self._number("hidden_size", "n_embd", "d_model"),
            "vocab": self._number("vocab_size"),
            "max_context": self._number("max_position_embeddings", "n_positions", "seq_length"),
            "attention": self._attention(kinds),
            "tied_embedding": bool(self._get("tie_word_embeddings", default=False)),
            "source": str(self.file),
        }
        if kinds["mamba"]:
            shape["recurrent"] = self._mamba(kinds["mamba"])
        if kinds["linear"]:
            shape["recurrent"] = self._delta(kinds["linear"])
        dense, sparse = self._feed_forward(kinds)
        if dense:
            inter = self._number("intermediate_size_mlp", "intermediate_size", "ffn_dim", "n_inner")
            shape["dense"] = {"layers": dense, "inter": inter}
        if sparse:
            shape["moe"] = self._experts(sparse)
            bits = _PUBLISHED_BITS.get(str(self.quantized.get("quant_method")))
            if bits:
                shape["weight_bits"] = {"experts": bits}
        try:
            return Model.model_validate(shape)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            why = str(first.get("ctx", {}).get("error", "")) or first["msg"]
            raise self._error(f"is not a possible shape ({place}: {why})") from None

    def _layers(self) -> Counter[str]:
        """Count mixers by kind; ``moe`` and ``mlp`` only where they are layers of their own."""
        blocks = self._get("layers_block_type", "hybrid_override_pattern")
        if blocks:
            named = [_PATTERN.get(b, b) for b in blocks] if isinstance(blocks, str) else [str(b) for b in blocks]
            counted = Counter(named)
            unknown = set(counted) - {"mamba", "moe", "attention", "mlp"}
            if unknown:
                raise self._error(f"layers of the kind {', '.join(sorted(unknown))} are not known here")
            return counted + Counter(apart=1)
        layers = self._number("num_hidden_layers", "n_layer", "num_layers")
        types = self._get("layer_types")
        if isinstance(types, list):
            kinds = Counter(types[:layers])
            unknown = set(kinds) - _LAYER_TYPES
            if unknown:
                raise self._error(f"layer_types: {', '.join(sorted(unknown))} is not known here")
            windowed = kinds["sliding_attention"] + kinds["chunked_attention"]
            return Counter(
                attention=layers - kinds["linear_attention"], linear=kinds["linear_attention"], window=windowed
            )
        interval = self._get("full_attention_interval")
        if interval:
            return Counter(attention=layers // interval, linear=layers - layers // interval)
        window = 0
        if self._get("sliding_window") and self._get("use_sliding_window", default=True):
            pattern = self._get("sliding_window_pattern")
            window = layers - layers // pattern if pattern else layers
        return Counter(attention=layers, window=window)

    def _attention(self, kinds: Counter[str]) -> dict[str, Any]:
        layers, heads = kinds["attention"], self._number("num_attention_heads", "n_head")
        if self._get("kv_lora_rank"):
            if not self._get("q_lora_rank"):
                raise self._error("q_lora_rank: latent attention without it is not known here")
            sparse = {"index_heads": "index_n_heads", "index_dim": "index_head_dim", "index_top_k": "index_topk"}
            return {
                "kind": "mla",
                "layers": layers,
                "q_heads": heads,
                "q_rank": self._number("q_lora_rank"),
                "kv_rank": self._number("kv_lora_rank"),
                "nope_dim": self._number("qk_nope_head_dim"),
                "rope_dim": self._number("qk_rope_head_dim"),
                "v_dim": self._number("v_head_dim"),
                **({k: self._number(v) for k, v in sparse.items()} if self._get("index_topk") else {}),
            }
        made = {
            "kind": "gqa",
            "layers": layers,
            "q_heads": heads,
            "kv_heads": int(self._get("num_key_value_heads", default=heads)),
            "head_dim": int(self._get("head_dim", default=self._number("hidden_size", "n_embd", "d_model") // heads)),
            "gated": bool(self._get("attn_output_gate", default=False)),
        }
        if kinds["window"]:
            made |= {
                "windowed_layers": kinds["window"],
                "window": self._number("sliding_window", "attention_chunk_size"),
            }
        return made

    def _mamba(self, layers: int) -> dict[str, Any]:
        return {
            "kind": "mamba2",
            "layers": layers,
            "heads": self._number("mamba_num_heads"),
            "head_dim": self._number("mamba_head_dim"),
            "groups": self._number("n_groups", "mamba_n_groups"),
            "state": self._number("ssm_state_size", "mamba_d_state"),
            "conv": self._number("conv_kernel", "mamba_d_conv"),
        }

    def _delta(self, layers: int) -> dict[str, Any]:
        dim = self._number("linear_value_head_dim")
        if self._number("linear_key_head_dim") != dim:
            raise self._error(f"linear_key_head_dim differs from linear_value_head_dim = {dim}; that is not known here")
        return {
            "kind": "gated_delta",
            "layers": layers,
            "qk_heads": self._number("linear_num_key_heads"),
            "v_heads": self._number("linear_num_value_heads"),
            "head_dim": dim,
            "conv": self._number("linear_conv_kernel_dim"),
        }

    def _feed_forward(self, kinds: Counter[str]) -> tuple[int, int]:
        """Return layers without and with experts."""
        if kinds["apart"]:
            if kinds["mlp"] and self._matrices() != 3:
                raise self._error("feed-forward layers without a gate are not known here")
            return kinds["mlp"], kinds["moe"]
        layers = kinds["attention"] + kinds["linear"]
        if not self._get(*_EXPERTS):
            return layers, 0
        every = self._get("moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step", default=1)
        dense = set(self._get("mlp_only_layers", default=[]))
        if isinstance(every, list):
            dense |= {i for i, sparse in enumerate(every[:layers]) if not sparse}
        else:
            dense |= {i for i in range(layers) if (i + 1) % int(every)}
        dense |= set(range(int(self._get("first_k_dense_replace", default=0))))
        return len(dense), layers - len(dense)

    def _matrices(self) -> int:
        return 2 if self._get("mlp_hidden_act", "hidden_act") == "relu2" else 3

    def _experts(self, layers: int) -> dict[str, Any]:
        inter = self._number("moe_intermediate_size", "intermediate_size")
        shared = self._get("moe_shared_expert_intermediate_size", "shared_expert_intermediate_size", "share_expert_dim")
        if shared is None and str(self._get("model_type", default="")).startswith("llama4"):
            shared = inter  # always there, and not in the configuration
        if shared is None:
            shared = inter * int(self._get("n_shared_experts", "num_shared_experts", default=0))
        return {
            "layers": layers,
            "experts": self._number(*_EXPERTS),
            "top_k": self._number(*_TOP_K),
            "inter": inter,
            "shared_inter": int(shared),
            "latent": int(self._get("moe_latent_size", default=0)),
            "matrices": self._matrices(),
        }
