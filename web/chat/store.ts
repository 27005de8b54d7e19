import { computed, signal } from "@preact/signals";
import { requestOf } from "../../src/api/management/call.ts";
import { answerOf, ApiFailure, call, list, messageOf, needsToken } from "../shared/api.ts";
import { oneAtATime } from "../shared/one-at-a-time.ts";
import { FreshReading } from "./fresh-reading.ts";
import { Keeper, type Unkept } from "./keeper.ts";
import { firstModel, isMoving, models, readModels } from "./models.ts";
import { newConversation, newId, type Conversation, type Parameters } from "./model.ts";
import { verdictOfRefusal } from "./verdict.ts";

export type Summary = Pick<Conversation, "id" | "title" | "model" | "updated_at" | "pinned">;

export const conversations = signal<readonly Summary[]>([]);
export const current = signal<Conversation>(newConversation(""));
/** Why the last thing that a person did has failed, for a person; empty: it has not. */
export const failure = signal("");
/** Why the server does not give the models or the conversations, for a person; empty: it does. */
export const unread = signal("");
/** Why the server is not reached, for a person; empty: it is. */
export const lost = signal("");
/** Conversations that the server has not kept yet. */
export const unkept = signal<readonly Unkept[]>([]);
/** Ids of conversations that are kept as copies, since another device has continued them. */
export const copied = signal<readonly string[]>([]);
/** The conversation that is being answered: a person may look at another one meanwhile. */
export const answering = signal<Conversation | undefined>(undefined);
export const isAnswering = computed(() => answering.value !== undefined);

/** Milliseconds after which a server that says nothing counts as out of reach. */
const requestTimeoutMs = 30_000;
/** A text has longer: at the slowest connection over which it is kept. */
const slowestBytesPerMs = 50;

/** Ends a request that takes too long. `bytes`: how much it transfers. */
const limit = (bytes = 0): AbortSignal => AbortSignal.timeout(requestTimeoutMs + Math.ceil(bytes / slowestBytesPerMs));

/** How long a conversation is, nobody knows before it has come: most are shorter. */
const readBytes = 2 * 1024 ** 2;

const readWhole = (id: string): Promise<Conversation> =>
  call("GET /api/conversations/{id}", { params: { id }, signal: limit(readBytes) });

const keeper = new Keeper({
  put: async (conversation, basedOn) => {
    // The server would refuse it again, and count that.
    if (needsToken.value) throw new ApiFailure(401, "auth.required", "Berth waits for a token");
    const sent = { params: { id: conversation.id }, query: { based_on: basedOn } };
    const { method, path } = requestOf("PUT /api/conversations/{id}", sent);
    const content = new Blob([JSON.stringify(conversation)], { type: "application/json" });
    await answerOf(path, { method, raw: { content }, signal: limit(content.size) });
  },
  read: async (id) => ({ ...newConversation(""), ...(await readWhole(id)) }),
  remove: async (id) => {
    try {
      await call("DELETE /api/conversations/{id}", { params: { id }, signal: limit() });
    } catch (error) {
      // Another device has deleted it, or the server has never kept it.
      if (!isGone(error)) throw error;
    }
  },
  verdictOf: (error) => {
    if (isOutOfReach(error)) miss(error);
    return error instanceof ApiFailure ? verdictOfRefusal(error) : { kind: "later" };
  },
  later: (task, ms) => {
    const timer = setTimeout(task, ms);
    return () => clearTimeout(timer);
  },
  newId,
  onChange: () => {
    heads.changed();
    unkept.value = keeper.unkept;
  },
  onCopy: (id, { id: copyId, title, model, updated_at }) => {
    const renamed = { id: copyId, title };
    if (current.value.id === id) current.value = { ...current.value, ...renamed };
    if (answering.value?.id === id) answering.value = { ...answering.value, ...renamed };
    conversations.value = [{ ...renamed, model, updated_at }, ...conversations.value];
    copied.value = [...copied.value, copyId];
  },
});

const notDone = "Berth did not answer, and what you did last was not done. Do it again.";

/** Runs a task whose failure a person is shown. */
export async function shown<T>(task: () => Promise<T>): Promise<T | undefined> {
  try {
    failure.value = "";
    return await task();
  } catch (error) {
    if (isOutOfReach(error)) miss(error);
    failure.value = isOutOfReach(error) ? notDone : messageOf(error);
    return undefined;
  }
}

/** Conversations have not been read yet, or may have been missed. */
let isBehind = true;

/** Reads the models, and `withConversations`, or where the page is behind, the conversations as well. */
export async function refresh(withConversations = false): Promise<void> {
  isBehind ||= withConversations;
  await refreshOnce();
  // The run that was going on had read them already.
  if (isBehind && !isCutOff()) await refreshOnce();
}

const isCutOff = (): boolean => lost.value !== "" || unread.value !== "";

/** Whether the page waits for something that no person does here: it asks again until that has happened. */
export function isUnsettled(): boolean {
  const isOffered = models.value.some(({ id }) => id === current.value.model);
  return isCutOff() || isAnswering.value || !isOffered || models.value.some(isMoving);
}

const refreshOnce = oneAtATime(async () => {
  try {
    await readModels(limit());
    if (current.value.model === "") current.value = { ...current.value, model: firstModel() };
    if (isBehind) {
      isBehind = false;
      // A text that is sent slowly does not hold the list.
      void keeper.tryAgain();
      await readConversations();
    }
    unread.value = "";
    lost.value = "";
  } catch (error) {
    isBehind = true;
    if (isOutOfReach(error)) {
      miss(error);
      return;
    }
    unread.value = messageOf(error);
    lost.value = "";
  }
});

function miss(error: unknown): void {
  isBehind = true;
  lost.value = messageOf(error);
}

/** No server answers, or a proxy does in its place. */
const isOutOfReach = (error: unknown): boolean =>
  error instanceof ApiFailure && (error.status === 0 || (error.status >= 502 && error.code === "unknown"));

const heads = new FreshReading(() => list("GET /api/conversations", { signal: limit() }));

async function readConversations(): Promise<void> {
  const kept = await heads.latest();
  if (kept === undefined) return;
  const here = unkept.value.map(({ conversation }) => conversation);
  const ids = new Set(here.map(({ id }) => id));
  conversations.value = latestFirst([...here.map(headOf), ...kept.filter(({ id }) => !ids.has(id))]);
}

const headOf = ({ id, title, model, updated_at, pinned = false }: Conversation): Summary => ({
  id,
  title,
  model,
  updated_at,
  pinned,
});

/** Of several conversations that were opened, a person sees the one of the last click, in whatever order they arrive. */
let clicks = 0;

/** Whether nobody has chosen a conversation, or begun one, since the page was loaded. */
export const isUntouched = (): boolean => clicks === 0;

export async function open(id: string): Promise<void> {
  const click = ++clicks;
  // A conversation that is being answered has its latest text here.
  const live = (): Conversation | undefined => (answering.value?.id === id ? answering.value : undefined);
  try {
    const found = live() ?? (await keeper.open(id, () => click === clicks));
    if (found === undefined) return;
    // Where it is shown already, a person may have chosen another model for it meanwhile.
    const { id: shownId, model, parameters } = current.value;
    current.value = { ...(live() ?? found), ...(shownId === id ? { model, parameters } : {}) };
  } catch (error) {
    if (click === clicks) throw isGone(error) ? leaveOut(id) : error;
  }
}

/** The server has no such conversation. */
export const isGone = (error: unknown): boolean => error instanceof ApiFailure && error.status === 404;

/** The list is older than a deletion on another device. */
function leaveOut(id: string): Error {
  const title = conversations.value.find((each) => each.id === id)?.title ?? "This conversation";
  conversations.value = conversations.value.filter((each) => each.id !== id);
  return new Error(`“${title}” is kept no longer: it was deleted on another device, or in another window.`);
}

interface Choices {
  readonly model?: string;
  readonly parameters?: Partial<Parameters>;
}

/** The model and the parameters that a person has chosen since the page was loaded. */
let choices: Choices = {};

/** Has the next message of the shown conversation asked that way. */
export function choose(what: Choices): void {
  choices = merged(choices, what);
  current.value = merged(current.value, what);
}

/** Puts the choices since the load into a conversation that stood on the page before it. */
export function withChoices<T extends Pick<Conversation, "model" | "parameters">>(before: T): T {
  return merged(before, choices);
}

function merged<T extends Choices>(one: T, other: Choices): T {
  return { ...one, ...other, parameters: { ...one.parameters, ...other.parameters } };
}

/** Shows the conversation that was open before the page was loaded anew, unless somebody has chosen one meanwhile. */
export async function openAgain(id: string): Promise<void> {
  const found = await keeper.open(id, isUntouched);
  if (found !== undefined && isUntouched()) current.value = withChoices(found);
}

/** Shows a new conversation, or stays at the present one: what was clicked before comes too late. */
export function show(conversation: Conversation): void {
  clicks += 1;
  failure.value = "";
  current.value = conversation;
}

/**
 * Has the server keep a text that was continued at that time: at once, or as soon as it takes it. Resolves with the server's
 * first answer.
 */
export async function keep(conversation: Conversation, updated_at = new Date().toISOString()): Promise<void> {
  const next = { ...conversation, updated_at };
  await keeper.keep(next);
  const { id } = next;
  // It may have been deleted, or have become a copy.
  if (keeper.has(id))
    conversations.value = latestFirst([headOf(next), ...conversations.value.filter((each) => each.id !== id)]);
}

const latestFirst = (heads: readonly Summary[]): readonly Summary[] =>
  heads.toSorted((one, other) => Date.parse(other.updated_at) - Date.parse(one.updated_at));

/** The whole of a conversation, as the page or the server has it. */
export async function wholeOf(id: string): Promise<Conversation> {
  const here = [answering.value, ...unkept.value.map(({ conversation }) => conversation)];
  const own = here.find((each) => each?.id === id);
  return own ?? (await found(id, () => readWhole(id)));
}

/** A conversation that is read; where it is kept no longer, the list loses it. */
async function found<T>(id: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw isGone(error) ? leaveOut(id) : error;
  }
}

/** Sends what the server has not kept again, now. */
export async function keepNow(): Promise<void> {
  await keeper.tryAgain();
}

/** Has the server keep a conversation again that was deleted elsewhere. */
export async function keepAgain(id: string): Promise<void> {
  await keeper.keepAgain(id);
}

/** Gives a conversation another title, another place in the list, or other parameters. */
export async function change(
  id: string,
  what: Partial<Pick<Conversation, "title" | "pinned" | "parameters">>,
): Promise<void> {
  const here = [current.value, answering.value].find((each) => each?.id === id);
  // Opened, so that the change continues the text that is kept.
  const whole = here ?? (await found(id, () => keeper.open(id, () => true)));
  if (whole === undefined) return;
  if (current.value.id === id) current.value = { ...current.value, ...what };
  if (answering.value?.id === id) answering.value = { ...answering.value, ...what };
  // Nothing more was said: it stays where it stands in the list. Yet no two texts have the same time.
  const waiting = unkept.value.find(({ conversation }) => conversation.id === id)?.conversation;
  const { updated_at: at } = waiting ?? conversations.value.find((each) => each.id === id) ?? whole;
  await keep({ ...whole, ...what }, new Date(Date.parse(at) + 1).toISOString());
}

export async function forget(id: string): Promise<void> {
  await keeper.remove(id);
  conversations.value = conversations.value.filter((each) => each.id !== id);
  if (current.value.id === id) show(newConversation(current.value.model));
}
