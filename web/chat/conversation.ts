import { signal } from "@preact/signals";
import { call, messageOf, type ApiFailure } from "../shared/api.ts";
import { titleOf, type Conversation, type Message } from "./model.ts";
import { answering, current, failure, keep, models, show } from "./store.ts";
import { answer } from "./stream.ts";
import { afterRetry, stoppedWords } from "./turns.ts";

/** The answer that is being written. */
export const partial = signal<Message | undefined>(undefined);
/** What the request waits for, in words; empty: nothing. */
export const waiting = signal("");
/** How many messages of the conversation stand before the answer that is being written. */
export const answeredAt = signal(0);

let stop: AbortController | undefined;

export function stopAnswer(): void {
  stop?.abort();
}

/** Adds a message of the person, and the model's answer to it. */
export async function send(content: string, images: readonly string[]): Promise<void> {
  const question: Message = { role: "user", content, ...(images.length === 0 ? {} : { images }) };
  const messages = [...current.value.messages, question];
  await proceed({ ...current.value, messages, title: current.value.title || titleOf(messages) }, messages.length);
}

/** Requests another answer to the last question. The present one stays until the new one has text. */
export async function retry(): Promise<void> {
  const last = current.value.messages.findLastIndex(({ role }) => role === "user");
  if (last >= 0) await proceed(current.value, last + 1);
}

/** Answers the conversation's first `count` messages. */
async function proceed(conversation: Conversation, count: number): Promise<void> {
  if (answering.value !== undefined) return;
  failure.value = "";
  show(conversation);
  answering.value = conversation;
  answeredAt.value = count;
  stop = new AbortController();
  const { signal: stopped } = stop;
  // The question is kept before its answer: a page that is closed meanwhile loses nothing. The answer does not wait for that.
  if (count === conversation.messages.length) void keep(conversation);
  const reply = await replyOrFailure({ ...conversation, messages: conversation.messages.slice(0, count) }, stopped);
  // The conversation may have become a copy meanwhile, which has another id.
  const { id, title } = answering.value ?? conversation;
  const earlier = conversation.messages.slice(count);
  const latest = afterRetry(earlier, reply);
  if (latest === earlier && !stopped.aborted)
    failure.value = `There is no new answer, and the earlier one stays: ${reply.failure ?? ""}`;
  const whole = { ...conversation, id, title, messages: [...conversation.messages.slice(0, count), ...latest] };
  partial.value = undefined;
  waiting.value = "";
  answering.value = undefined;
  // A person may have opened another conversation meanwhile.
  const { id: currentId, model, parameters } = current.value;
  if (currentId === id) current.value = { ...whole, model, parameters };
  if (latest !== earlier) await keep(whole);
}

async function replyOrFailure(conversation: Conversation, signal: AbortSignal): Promise<Message> {
  try {
    return await replyTo(conversation, signal);
  } catch (error) {
    const said = partial.value ?? { role: "assistant", content: "", model: conversation.model };
    return { ...said, failure: signal.aborted ? stoppedWords : messageOf(error, nextStep) };
  }
}

async function replyTo(conversation: Conversation, signal: AbortSignal): Promise<Message> {
  const chosen = models.value.find(({ id }) => id === conversation.model);
  const draws = chosen !== undefined && !chosen.berth.capabilities.includes("chat");
  if (draws) return await drawing(conversation, signal);
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
  waiting.value = "drawing";
  const prompt = messages.at(-1)?.content ?? "";
  const body = { model, prompt, response_format: "b64_json" };
  const { data } = await call<{ data: readonly { b64_json?: string }[] }>("/v1/images/generations", {
    method: "POST",
    body,
    signal,
  });
  const images = data.flatMap(({ b64_json: png }) => (png === undefined ? [] : [`data:image/png;base64,${png}`]));
  return { role: "assistant", content: "", images, model };
}

function nextStep({ status }: ApiFailure): string | undefined {
  if (status === 404) return "Choose another model above.";
  return status === 413 ? "Send a smaller picture, or begin a new chat." : undefined;
}
