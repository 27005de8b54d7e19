import { signal } from "@preact/signals";
import type { V1Model } from "../../src/api/management/v1-model.ts";
import { call, list, messageOf } from "../shared/api.ts";
import { newConversation, type Conversation } from "./model.ts";

export type Summary = Pick<Conversation, "id" | "title" | "model" | "updated_at">;

export const models = signal<readonly V1Model[]>([]);
export const conversations = signal<readonly Summary[]>([]);
export const current = signal<Conversation>(newConversation(""));
/** What went wrong last, for a person; empty: nothing. */
export const failure = signal("");

/** Runs a task whose failure a person is shown. */
export async function shown<T>(task: () => Promise<T>): Promise<T | undefined> {
  try {
    failure.value = "";
    return await task();
  } catch (error) {
    failure.value = messageOf(error);
    return undefined;
  }
}

export async function readModels(): Promise<void> {
  models.value = (await list<V1Model>("/v1/models")).map(withDefaults);
  if (current.value.model !== "") return;
  const chat = models.value.filter(canChat);
  const ready = chat.find(({ berth: { state } }) => ["ready", "serving", "idle"].includes(state));
  current.value = { ...current.value, model: (ready ?? chat[0])?.id ?? "" };
}

/** A model as the server sent it; of one that does not say what it can, a chat is tried. */
function withDefaults(model: V1Model): V1Model {
  const berth = { kind: "model", state: "", slot: null, capabilities: ["chat"] } as const;
  return { ...model, berth: { ...berth, ...model.berth } };
}

export const canChat = ({ berth }: V1Model): boolean =>
  berth.capabilities.includes("chat") || berth.capabilities.includes("image");

export async function readConversations(): Promise<void> {
  conversations.value = await list<Summary>("/api/conversations");
}

export async function open(id: string): Promise<void> {
  const found = await call<Partial<Conversation>>(`/api/conversations/${id}`);
  current.value = { ...newConversation(""), ...found };
}

/** Conversations that were deleted while they were answered must not come back with the answer. */
const forgotten = new Set<string>();

export async function keep(conversation: Conversation): Promise<void> {
  if (forgotten.has(conversation.id)) return;
  const saved = { ...conversation, updated_at: new Date().toISOString() };
  await call(`/api/conversations/${saved.id}`, { method: "PUT", body: saved });
  const { id, title, model, updated_at } = saved;
  conversations.value = [{ id, title, model, updated_at }, ...conversations.value.filter((each) => each.id !== id)];
}

export async function forget(id: string): Promise<void> {
  await call(`/api/conversations/${id}`, { method: "DELETE" });
  forgotten.add(id);
  conversations.value = conversations.value.filter((each) => each.id !== id);
  if (current.value.id === id) current.value = newConversation(current.value.model);
}
