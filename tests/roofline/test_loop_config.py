"""A model's shape from config.json: published totals, layers of all kinds, refusals by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from roofcast.roofline.loop import load_scenario
from roofcast.roofline.loop.change import changed
from roofcast.roofline.loop.huggingface import ConfigError, read_config
from roofcast.roofline.loop.model import load_model
from roofcast.roofline.loop.scenario_file import ScenarioError

# The fields that decide a shape, as in the published configurations.
CONFIGS: dict[str, dict[str, Any]] = {
    "Qwen3-30B-A3B": {
        "model_type": "qwen3_moe", "hidden_size": 2048, "vocab_size": 151936, "max_position_embeddings": 40960,
        "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
        "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "intermediate_size": 6144,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "sliding_window": None, "use_sliding_window": False,
    },
    "Llama-3.1-8B": {
        "model_type": "llama", "hidden_size": 4096, "vocab_size": 128256, "max_position_embeddings": 131072,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
        "hidden_act": "silu", "tie_word_embeddings": False,
    },
    "DeepSeek-V3": {
        "model_type": "deepseek_v3", "hidden_size": 7168, "vocab_size": 129280, "max_position_embeddings": 163840,
        "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "first_k_dense_replace": 3, "moe_layer_freq": 1, "intermediate_size": 18432, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
    },
    "gpt-oss-120b": {
        "model_type": "gpt_oss", "hidden_size": 2880, "vocab_size": 201088, "max_position_embeddings": 131072,
        "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
        "layer_types": ["sliding_attention", "full_attention"] * 18, "sliding_window": 128, "intermediate_size": 2880,
        "num_local_experts": 128, "num_experts_per_tok": 4, "quantization_config": {"quant_method": "mxfp4"},
    },
    "Nemotron-3-Nano-30B-A3B": {
        "model_type": "nemotron_h", "hidden_size": 2688, "vocab_size": 131072, "max_position_embeddings": 262144,
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "num_hidden_layers": 52,
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "mamba_num_heads": 64,
        "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4, "n_routed_experts": 128,
        "num_experts_per_tok": 6, "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712,
        "mlp_hidden_act": "relu2", "intermediate_size": 1856, "sliding_window": None,
    },
    "Nemotron-3-Ultra-550B-A55B": {
        "model_type": "nemotron_h", "hidden_size": 8192, "vocab_size": 131072, "max_position_embeddings": 262144,
        "layers_block_type": ["mamba"] * 48 + ["moe"] * 48 + ["attention"] * 12, "num_attention_heads": 64,
        "num_key_value_heads": 2, "head_dim": 128, "mamba_num_heads": 256, "mamba_head_dim": 64, "n_groups": 8,
        "ssm_state_size": 128, "conv_kernel": 4, "n_routed_experts": 512, "num_experts_per_tok": 22,
        "moe_intermediate_size": 5120, "moe_latent_size": 2048, "moe_shared_expert_intermediate_size": 10240,
        "mlp_hidden_act": "relu2",
    },
    "Qwen3.5-35B-A3B": {
        "model_type": "qwen3_5_moe", "vision_config": {"hidden_size": 1152},
        "text_config": {
            "hidden_size": 2048, "vocab_size": 248320, "max_position_embeddings": 262144, "num_hidden_layers": 40,
            "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 10, "num_attention_heads": 16,
            "num_key_value_heads": 2, "head_dim": 256, "attn_output_gate": True, "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
            "linear_value_head_dim": 128, "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512, "mlp_only_layers": [],
        },
    },
    "GLM-4.5-Air": {
        "model_type": "glm4_moe", "hidden_size": 4096, "vocab_size": 151552, "max_position_embeddings": 131072,
        "num_hidden_layers": 46, "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128,
        "first_k_dense_replace": 1, "intermediate_size": 10944, "n_routed_experts": 128, "n_shared_experts": 1,
        "num_experts_per_tok": 8, "moe_intermediate_size": 1408,
    },
}  # fmt: skip
SAME = ("hidden", "vocab", "attention", "recurrent", "dense", "moe", "tied_embedding", "weight_bits")


def write_config(folder: Path, data: Any) -> Path:
    (folder / "config.json").write_text(data if isinstance(data, str) else json.dumps(data))
    return folder / "config.json"


@pytest.mark.parametrize("name", CONFIGS)
def test_a_configuration_gives_the_built_in_shape_and_its_published_total(name: str, tmp_path: Path) -> None:
    read, known = read_config(write_config(tmp_path, CONFIGS[name])), load_model(name)
    assert {f: getattr(read, f) for f in SAME} == {f: getattr(known, f) for f in SAME}
    assert known.published is not None
    assert read.parameters / 1e9 == pytest.approx(known.published.parameters_b, rel=0.01)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": None}, ["config.json", "hidden_size"]),
        ({"hidden_size": "wide"}, ["hidden_size", "wide"]),
        ({"num_key_value_heads": 5}, ["possible shape", "multiple of kv_heads"]),
        ({"num_experts_per_tok": 500}, ["top_k"]),
        ({"block_configs": [{}]}, ["block_configs", "different widths"]),
        ({"layer_types": ["hyena"] * 48}, ["hyena"]),
        ({"compress_ratios": [4]}, ["compressed attention"]),
    ],
)
def test_what_a_shape_cannot_say_is_refused_by_name(change: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    path = write_config(tmp_path, CONFIGS["Qwen3-30B-A3B"] | change)
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{"])
def test_a_file_that_is_no_configuration_is_one_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        read_config(write_config(tmp_path, text))


def test_a_scenario_takes_a_configuration_beside_it_and_names_a_wrong_one(tmp_path: Path) -> None:
    write_config(tmp_path, CONFIGS["Llama-3.1-8B"])
    text = (
        "name: own\nmodel: config.json\nalgorithm: {prompts: 8, rollouts: 8}\ncluster: {gpus: 8}\n"
        "lengths: {prompt: {distribution: fixed, tokens: 100}, response: {distribution: fixed, tokens: 900}}\n"
    )
    (tmp_path / "own.yaml").write_text(text)
    assert load_scenario(tmp_path / "own.yaml").model.parameters == load_model("Llama-3.1-8B").parameters
    write_config(tmp_path, "{}")
    with pytest.raises(ScenarioError, match="num_hidden_layers"):
        load_scenario(tmp_path / "own.yaml")
    with pytest.raises(ScenarioError, match="cannot be read"):
        changed(load_scenario("qwen3-30b-a3b-grpo-math"), {"model": "nosuch.json"})
