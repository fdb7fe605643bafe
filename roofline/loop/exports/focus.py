"""Rows of FOCUS 1.2 (FinOps Open Cost and Usage Specification): one per phase, system and thing that is paid for.

A projection is not a bill: every row has ``x_Estimate`` = true and the scenario it belongs to, and `BilledCost` is
what would be billed. Columns are the mandatory ones of version 1.2 and those that they imply; own columns start
with ``x_``. https://focus.finops.org/focus-specification/v1-2/
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ..cost import LoopCost
from ..rows import PAID_FOR

COLUMNS = (
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency"),
    *("BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription"),
    *("ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit"),
    *("ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName", "ListCost", "ListUnitPrice"),
    *("PricingCategory", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "RegionId"),
    *("ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "SkuId", "SkuPriceId", "Tags"),
    *("x_Estimate", "x_ScenarioId", "x_System", "x_Phase", "x_RowId", "x_TimeSeconds", "x_CostLow", "x_CostHigh"),
    *("x_QuantityLow", "x_QuantityHigh", "x_EnergyKwh", "x_PriceKind", "x_PriceSource", "x_Basis", "x_BoundBy"),
)
_NAME = "roofcast estimate"


def focus_rows(cost: LoopCost, start: datetime | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of one step.

    Parameters
    ----------
    start
        When the step is taken to start; default: the start of today, UTC.
    """
    start = (start or datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)).astimezone(UTC)
    month = start.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (month + timedelta(days=32)).replace(day=1)
    ends = {r["system"]: start + timedelta(seconds=r["time_mid_s"]) for r in cost.rows if r["phase"] == "step"}
    for row in cost.rows:
        if row["phase"] == "step":
            continue
        for item in PAID_FOR:
            quantity, price = item.quantity(row, "mid"), item.price(row, cost.scenario)
            if not quantity:
                continue
            usd = quantity * price
            # The band of the row's dollars; that of each part is not kept.
            scale = {end: row[f"usd_{end}"] / row["usd_mid"] if row["usd_mid"] else 1.0 for end in ("low", "high")}
            system = row["system"]
            yield {
                "BilledCost": usd, "EffectiveCost": usd, "ListCost": usd, "ContractedCost": usd,
                "BillingAccountId": f"estimate:{cost.scenario.name}", "BillingAccountName": _NAME,
                "BillingAccountType": "Estimate", "BillingCurrency": "USD",
                "BillingPeriodStart": _time(month), "BillingPeriodEnd": _time(following),
                "ChargePeriodStart": _time(start), "ChargePeriodEnd": _time(ends[system]),
                "ChargeCategory": "Usage", "ChargeClass": None, "ChargeFrequency": "Usage-Based",
                "ChargeDescription": _describe(row, cost.scenario.name, item.unit),
                "ConsumedQuantity": quantity, "ConsumedUnit": item.unit,
                "PricingQuantity": quantity, "PricingUnit": item.unit, "PricingCategory": "Standard",
                "ListUnitPrice": price, "ContractedUnitPrice": price,
                "InvoiceIssuerName": _NAME, "ProviderName": _NAME, "PublisherName": _NAME, "RegionId": None,
                "ResourceId": f"{system}/{item.name}", "ResourceName": system, "ResourceType": item.resource,
                "ServiceCategory": "AI and Machine Learning" if item.name == "gpu" else "Compute",
                "ServiceName": f"RL post-training, {row['phase']}",
                "SkuId": f"{system}:{item.name}", "SkuPriceId": f"{system}:{item.name}:{row['price_kind']}",
                "Tags": json.dumps({"scenario": cost.scenario.name, "phase": row["phase"], "system": system}),
                "x_Estimate": "true", "x_ScenarioId": cost.scenario.name, "x_System": system, "x_Phase": row["phase"],
                "x_RowId": row["id"], "x_TimeSeconds": row["time_mid_s"],
                "x_CostLow": usd * scale["low"], "x_CostHigh": usd * scale["high"],
                "x_QuantityLow": item.quantity(row, "low"), "x_QuantityHigh": item.quantity(row, "high"),
                "x_EnergyKwh": row["kwh_mid"] if item.name == "gpu" else None,
                "x_PriceKind": row["price_kind"] if item.name == "gpu" else "scenario",
                "x_PriceSource": row["provenance"]["price"]["source"] if item.name == "gpu" else "the scenario",
                "x_Basis": row["basis"], "x_BoundBy": row["bound_by"],
            }  # fmt: skip


def _describe(row: dict[str, Any], scenario: str, unit: str) -> str:
    return f"Estimate: {unit} of {row['phase']}, one step of {scenario} on {row['system']}"


def _time(value: datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%SZ")


def write_focus(cost: LoopCost, path: Path, start: datetime | None = None) -> None:
    """Write the rows of one step as CSV."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(focus_rows(cost, start))
