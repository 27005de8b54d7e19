import { signal } from "@preact/signals";
import { ApiFailure, answerOf, messageOf, stuckSlot } from "../shared/api.ts";
import { endAfter, pathTo, placeBefore, shownMessages, shownPath, withInstead, withMessage } from "./branches.ts";
import { titleOf, type Conversation, type Message, type TextFile } from "./model.ts";
import { draws, models } from "./models.ts";
import { answering, current, failure, keep, show } from "./store.ts";
import { answer } from "./stream.ts";
import { wholeText } from "./texts.ts";
import { afterRetry, saysSomething, stoppedWords } from "./turns.ts";

/** The answer that is being written. */
export const partial = signal<Message | undefined>(undefined);
/** The parts of what the request waits for, in words; none: it waits no longer. */
export const waiting = signal<readonly string[]>([]);
/** How many messages of the shown branch stand before the answer that is being written. */
export const answeredAt = signal(0);

let stop: AbortController | undefined;
let present = Promise.resolve();

export function stopAnswer(): void {
  stop?.abort();
}

/** Adds a message of the person to the shown branch, and the model's answer to it. */
export async function send(
  content: string,
  images: readonly string[] = [],
  files: readonly TextFile[] = [],
): Promise<void> {
  const question: Message = {
    role: "user",
    content,
    ...(images.length === 0 ? {} : { images }),
    ...(files.length === 0 ? {} : { files }),
  };
  const before = current.value;
  const asked = withMessage(before, question, shownPath(before).at(-1) ?? -1);
  await proceed({ ...asked, title: before.title || titleOf(asked.messages) }, asked.messages.length - 1);
}

/** Asks a question in other words: the earlier one stays, as another branch. */
export async function ask(content: string, place: number): Promise<void> {
  const { messages } = current.value;
  const earlier = messages[place];
  if (earlier === undefined) return;
  const { after: _, ...question } = earlier;
  await proceed(withMessage(current.value, { ...question, content }, placeBefore(messages, place)), messages.length);
}

/** Requests another answer to the last question, from that model. The present one stays until the new one has text. */
export async function retry(model = current.value.model): Promise<void> {
  const last = shownPath(current.value).findLast((place) => current.value.messages[place]?.role === "user");
  if (last !== undefined) await proceed({ ...current.value, model }, last);
}

/** Asks another model instead of the one that is being waited for. */
export async function askInstead(model: string): Promise<void> {
  const { id } = current.value;
  stopAnswer();
  await present;
  if (current.value.id === id) await retry(model);
}

/** Shows the branch of that message. */
export function showVersion(place: number): void {
  current.value = { ...current.value, shown: endAfter(current.value.messages, place) };
}

async function proceed(conversation: Conversation, question: number): Promise<void> {
  if (answering.value !== undefined) return;
  present = answerTo(conversation, question);
  await present;
}

/** Answers the question at that place. */
async function answerTo(conversation: Conversation, question: number): Promise<void> {
  failure.value = "";
  show(conversation);
  answering.value = conversation;
  const path = pathTo(conversation.messages, question);
  answeredAt.value = path.length;
  stop = new AbortController();
  const { signal: stopped } = stop;
  // The question is kept before its answer: a page that is closed meanwhile loses nothing. The answer does not wait for that.
  if (question === conversation.messages.length - 1) void keep(conversation);
  const messages = path.flatMap((place) => conversation.messages[place] ?? []);
  const reply = await replyOrFailure({ ...conversation, messages }, stopped);
  // The conversation may have become a copy meanwhile, which has another id, or have got another title.
  const { messages: _, shown: __, ...head } = answering.value ?? conversation;
  const [earlierPlace] = shownPath(conversation).slice(path.length);
  const earlier = shownMessages(conversation).slice(path.length);
  const [latest = reply] = afterRetry(earlier, reply);
  const isNew = latest === reply;
  // The page itself says that the server is out of reach, as long as it is.
  if (!isNew && !stopped.aborted && reply.cause?.code !== "unreachable" && current.value.id === head.id)
    failure.value = `There is no new answer, and the earlier one stays: ${reply.failure ?? ""}`;
  const isInstead = earlierPlace !== undefined && !earlier.some(saysSomething);
  const answered = isInstead
    ? withInstead(conversation, reply, earlierPlace)
    : withMessage(conversation, reply, question);
  const whole = { ...(isNew ? answered : conversation), ...head };
  partial.value = undefined;
  waiting.value = [];
  answering.value = undefined;
  // A person may have opened another conversation meanwhile.
  const { id: currentId, model, parameters } = current.value;
  if (currentId === head.id) current.value = { ...whole, model, parameters };
  if (isNew) await keep(whole);
}

async function replyOrFailure(conversation: Conversation, signal: AbortSignal): Promise<Message> {
  try {
    return await replyTo(conversation, signal);
  } catch (error) {
    const said = partial.value ?? { role: "assistant", content: "", model: conversation.model };
    if (signal.aborted) return { ...said, failure: stoppedWords };
    const cause = error instanceof ApiFailure ? { cause: { code: error.code, ...stuckSlot(error) } } : {};
    return { ...said, failure: messageOf(error, nextStep), ...cause };
  }
}

async function replyTo(conversation: Conversation, signal: AbortSignal): Promise<Message> {
  const chosen = models.value.find(({ id }) => id === conversation.model);
  if (chosen !== undefined && draws(chosen)) return await drawing(conversation, signal);
  let frame = 0;
  let latest: Message | undefined;
  try {
    return await answer(conversation, {
      signal,
      onWait: (words) => (waiting.value = words),
      onAnswer: (message) => {
        latest = message;
        // At most one change of the page per frame, however fast tokens come.
        if (frame === 0)
          frame = requestAnimationFrame(() => {
            frame = 0;
            partial.value = latest;
          });
      },
    });
  } finally {
    cancelAnimationFrame(frame);
    // An answer that ends before its end keeps what came since the last frame, too.
    partial.value = latest;
  }
}

async function drawing({ model, messages }: Conversation, signal: AbortSignal): Promise<Message> {
  waiting.value = ["drawing"];
  const prompt = wholeText(messages.at(-1) ?? { content: "" });
  const body = { model, prompt, response_format: "b64_json" };
  const { data } = await answerOf<{ data: readonly { b64_json?: string }[] }>("/v1/images/generations", {
    method: "POST",
    body,
    signal,
  });
  const images = data.flatMap(({ b64_json: png }) => (png === undefined ? [] : [`data:image/png;base64,${png}`]));
  return { role: "assistant", content: "", images, model };
}

function nextStep({ status, code }: ApiFailure): string | undefined {
  if (code === "cut_off") return "Retry asks again.";
  if (code === "no_answer") return "Retry asks again; the slot's page has the log of its engine.";
  if (status === 404) return "Choose another model above.";
  return status === 413 ? "Send a smaller picture, or begin a new chat." : undefined;
}
