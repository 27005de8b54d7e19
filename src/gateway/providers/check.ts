import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { modelNames } from "./catalog.ts";
import type { Provider } from "./provider.ts";

export interface ProviderCheck {
  readonly ok: boolean;
  readonly milliseconds: number;
  readonly models: number | null;
  /** For a person who may see manifests; no secrets. */
  readonly problem: string | null;
}

/** The time limit of a provider's answer. */
const limitMs = 20_000;

/** Requests the provider's models, with its key. Never rejects. */
export async function checkProvider(provider: Pick<Provider, "list">): Promise<ProviderCheck> {
  const began = steadyNow();
  const took = (): number => Math.round(steadyNow() - began);
  try {
    const names = modelNames(await provider.list(AbortSignal.timeout(limitMs)));
    return { ok: true, milliseconds: took(), models: names.length, problem: null };
  } catch (error) {
    return { ok: false, milliseconds: took(), models: null, problem: problemOf(error) };
  }
}

/** A fault of the key is reported in full: the caller may see the manifest that names its place. */
function problemOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (cause instanceof Error && cause.name === "TimeoutError") return `it said nothing within ${limitMs / 1000} s`;
  // The error of one of several tried addresses has no message of its own.
  return errorMessage(cause) || (errorCode(cause) ?? "it cannot be reached");
}
