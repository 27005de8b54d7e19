import { signal } from "@preact/signals";
import type { V1Model } from "../../src/api/management/v1-model.ts";
import { ApiFailure, call, list, messageOf } from "../shared/api.ts";
import { newConversation, type Conversation } from "./model.ts";

export type Summary = Pick<Conversation, "id" | "title" | "model" | "updated_at">;

export const models = signal<readonly V1Model[]>([]);
export const conversations = signal<readonly Summary[]>([]);
export const current = signal<Conversation>(newConversation(""));
/** What went wrong last, for a person; empty: nothing. */
export const failure = signal("");
/** Why the server is not reached, for a person; empty: it is. */
export const lost = signal("");
/** Conversations that a server out of reach could not keep, until it does. */
export const unkept = signal<ReadonlyMap<string, Conversation>>(new Map());

/** Runs a task whose failure a person is shown. */
export async function shown<T>(task: () => Promise<T>): Promise<T | undefined> {
  try {
    failure.value = "";
    return await task();
  } catch (error) {
    if (isOutOfReach(error)) miss(error);
    else failure.value = messageOf(error);
    return undefined;
  }
}

/** Conversations have not been read yet, or may have been missed while the server was out of reach. */
let isBehind = true;

/** Reads the models, and where the page is behind, or `isFirst`, the conversations as well. */
export async function refresh(isFirst = false): Promise<void> {
  isBehind ||= isFirst;
  try {
    await readModels();
    if (isBehind) {
      for (const conversation of unkept.value.values()) await put(conversation);
      await readConversations();
      isBehind = false;
      failure.value = "";
    }
    lost.value = "";
  } catch (error) {
    if (isOutOfReach(error)) {
      miss(error);
      return;
    }
    // The server refuses the same conversation each time: the page says so once, not every few seconds.
    if (isBehind) failure.value = messageOf(error);
    isBehind = false;
    lost.value = "";
  }
}

function miss(error: unknown): void {
  isBehind = true;
  lost.value = messageOf(error);
}

/** No server answers, or a proxy does in its place. */
const isOutOfReach = (error: unknown): boolean =>
  error instanceof ApiFailure && (error.status === 0 || (error.status >= 502 && error.code === "unknown"));

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
  const found = unkept.value.get(id) ?? (await call<Partial<Conversation>>(`/api/conversations/${id}`));
  current.value = { ...newConversation(""), ...found };
}

/** Conversations that were deleted while they were answered must not come back with the answer. */
const forgotten = new Set<string>();

/** Has the server keep it: at once, or as soon as it is reached again. */
export async function keep(conversation: Conversation): Promise<void> {
  if (forgotten.has(conversation.id)) return;
  const saved = { ...conversation, updated_at: new Date().toISOString() };
  const { id, title, model, updated_at } = saved;
  unkept.value = new Map([...unkept.value, [id, saved]]);
  try {
    await put(saved);
  } catch (error) {
    if (!isOutOfReach(error)) throw error;
    miss(error);
  }
  conversations.value = [{ id, title, model, updated_at }, ...conversations.value.filter((each) => each.id !== id)];
}

async function put(conversation: Conversation): Promise<void> {
  const { id } = conversation;
  try {
    await call(`/api/conversations/${id}`, { method: "PUT", body: conversation });
  } catch (error) {
    // What the server refuses it will refuse again.
    if (!isOutOfReach(error)) done(id, conversation);
    throw error;
  }
  done(id, conversation);
}

/** A later text of the same conversation stays to be kept. */
function done(id: string, conversation: Conversation): void {
  if (unkept.value.get(id) !== conversation) return;
  unkept.value = new Map([...unkept.value].filter(([each]) => each !== id));
}

export async function forget(id: string): Promise<void> {
  await call(`/api/conversations/${id}`, { method: "DELETE" });
  forgotten.add(id);
  unkept.value = new Map([...unkept.value].filter(([each]) => each !== id));
  conversations.value = conversations.value.filter((each) => each.id !== id);
  if (current.value.id === id) current.value = newConversation(current.value.model);
}
