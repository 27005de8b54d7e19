import type { JSX } from "preact";
import { bytes } from "../../shared/format.ts";
import { Bar } from "./bar.tsx";

interface FitMeterProps {
  readonly need: number | null;
  readonly budget: number | null;
}

/** A bar of the memory that a model needs beside the memory that there is; nothing where either is not known. */
export function FitMeter({ need, budget }: FitMeterProps): JSX.Element | null {
  if (need === null || budget === null || budget === 0) return null;
  const share = need / budget;
  const tone = share > 1 ? "bad" : share > 0.85 ? "busy" : "good";
  return (
    <div class="fit">
      <Bar share={share} tone={tone} />
      <span class="quiet number">
        needs {bytes(need)} of {bytes(budget)}
      </span>
    </div>
  );
}
