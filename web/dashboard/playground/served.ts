import { createContext } from "preact";
import type { V1Model } from "../../../src/api/management/v1-model.ts";
import { list } from "../../shared/api.ts";
import { slots } from "../live.ts";
import { useLoaded, type Loaded } from "../parts/load.tsx";

/** The slots, models and providers' models that can answer, as the page has read them for all of its fields. */
export const Served = createContext<Loaded<readonly V1Model[]>>({ state: "loading" });

/** Reads them, and again where slots come, go or change their models. */
export function useServed(): Loaded<readonly V1Model[]> {
  const held = [...slots.value.values()].map(({ name, model, enabled }) => `${name} ${model} ${enabled}`).join();
  const [models] = useLoaded(() => list("GET /v1/models", { query: { available: "1" } }), [held]);
  return models;
}
