import { ApiError } from "../../api/errors.ts";
import { slotSpecSchema } from "../../api/slot.ts";
import { ShapeCache } from "../../models/fit/shape-cache.ts";
import { slotRefusal, type FitFacts } from "../../models/fit/slot-fit.ts";
import type { ManagementContext } from "./context.ts";

/** Shapes of the models that the management API judged lately. */
export const shapes = new ShapeCache();

type FitContext = Pick<ManagementContext, "index" | "hardware" | "config">;

/**
 * Refuses to write a slot whose model cannot fit this machine, with the sum. A model that is not
 * here yet, and a machine that was never probed, are left to the operator. Throws ApiError `config.fit`.
 */
export async function checkFit(
  context: FitContext,
  name: string,
  written: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { data } = slotSpecSchema.safeParse(written);
  const refusal = data === undefined ? undefined : await slotRefusal(name, data, fitFacts(context));
  if (refusal === undefined) return;
  const { subject, path, message, device, needBytes, budgetBytes } = refusal;
  throw new ApiError("config.fit", {
    message: `${subject} ${message}`,
    details: { path: [...path], message, device, need_bytes: needBytes, budget_bytes: budgetBytes },
  });
}

/** The facts by which the service judges now. */
export function fitFacts({ index, hardware, config }: FitContext): FitFacts {
  return { models: index().models, machine: hardware.found()?.hardware, runtime: config.runtime, shapes };
}
