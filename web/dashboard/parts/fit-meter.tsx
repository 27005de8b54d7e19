import type { JSX } from "preact";
import { bytes } from "../../shared/format.ts";

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
      <svg class="bar thin" viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true">
        <rect class={tone} x={0} y={0} width={Math.min(1000, 1000 * share)} height={8} />
      </svg>
      <span class="quiet number">
        needs {bytes(need)} of {bytes(budget)}
      </span>
    </div>
  );
}
