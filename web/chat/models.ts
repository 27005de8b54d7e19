import { signal } from "@preact/signals";
import type { V1Model } from "../../src/api/management/v1-model.ts";
import { list } from "../shared/api.ts";

export const models = signal<readonly V1Model[]>([]);
/** Whether there is a model to talk to; undefined: the server has not said yet. */
export const hasModels = signal<boolean | undefined>(undefined);

/** Throws ApiFailure. */
export async function readModels(limit: AbortSignal): Promise<void> {
  // Without `available` built-in slots that nobody has configured are listed, too.
  const found = await list("GET /v1/models", { query: { available: "1" }, signal: limit });
  models.value = found.map(withDefaults);
  hasModels.value = models.value.some(canChat);
}

/** A model as the server sent it; where that does not say what it can, a chat is tried. */
function withDefaults(model: V1Model): V1Model {
  const berth = { kind: "model", state: "", slot: null, capabilities: ["chat"] } as const;
  return { ...model, berth: { ...berth, ...model.berth } };
}

export const canChat = ({ berth }: V1Model): boolean =>
  berth.capabilities.includes("chat") || berth.capabilities.includes("image");

/** Whether it makes pictures, and does not talk. */
export const draws = ({ berth }: V1Model): boolean => !berth.capabilities.includes("chat");

/** The order of models that talk before those that only draw. */
export const talkFirst = (one: V1Model, other: V1Model): number => Number(draws(one)) - Number(draws(other));

/** Whether its slot changes its state by itself soon. */
export const isMoving = ({ berth: { state } }: V1Model): boolean =>
  ["pulling", "starting", "warming", "unloading"].includes(state);

/** The model of a new chat: one that answers at once, where there is one. */
export function firstModel(): string {
  const chat = models.value.filter(canChat).toSorted(talkFirst);
  const ready = chat.find(({ berth: { state } }) => ["ready", "serving", "idle"].includes(state));
  return (ready ?? chat[0])?.id ?? "";
}
