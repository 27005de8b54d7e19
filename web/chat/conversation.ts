import { signal } from "@preact/signals";
import { ApiFailure, call, messageOf } from "../shared/api.ts";
import { titleOf, type Conversation, type Message } from "./model.ts";
import { current, keep, models, shown } from "./store.ts";
import { answer } from "./stream.ts";

/** The answer that is being written. */
export const partial = signal<Message | undefined>(undefined);
/** What the request waits for, in words; empty: nothing. */
export const waiting = signal("");
export const isAnswering = signal(false);
/** The conversation that is being answered: a person may look at another one meanwhile. */
export const answeredId = signal("");

let stop: AbortController | undefined;

export function stopAnswer(): void {
  stop?.abort();
}

/** Adds a message of the person, and the model's answer to it. */
export async function send(content: string, images: readonly string[]): Promise<void> {
  const question: Message = { role: "user", content, ...(images.length === 0 ? {} : { images }) };
  await proceed({ ...current.value, messages: [...current.value.messages, question] });
}

/** Asks again for the last answer. */
export async function retry(): Promise<void> {
  const { messages } = current.value;
  const last = messages.findLastIndex(({ role }) => role === "user");
  if (last >= 0) await proceed({ ...current.value, messages: messages.slice(0, last + 1) });
}

async function proceed(asked: Conversation): Promise<void> {
  if (isAnswering.value) return;
  const conversation = { ...asked, title: asked.title || titleOf(asked.messages) };
  current.value = conversation;
  isAnswering.value = true;
  answeredId.value = conversation.id;
  stop = new AbortController();
  let reply: Message;
  try {
    reply = await replyTo(conversation, stop.signal);
  } catch (error) {
    const said = partial.value ?? { role: "assistant", content: "", model: conversation.model };
    reply = { ...said, failure: stop.signal.aborted ? "Stopped." : whyNot(error) };
  } finally {
    partial.value = undefined;
    waiting.value = "";
    isAnswering.value = false;
  }
  const whole = { ...conversation, messages: [...conversation.messages, reply] };
  // A person may have opened another conversation meanwhile.
  const { id, model, parameters } = current.value;
  if (id === whole.id) current.value = { ...whole, model, parameters };
  await shown(() => keep(whole));
}

async function replyTo(conversation: Conversation, signal: AbortSignal): Promise<Message> {
  const chosen = models.value.find(({ id }) => id === conversation.model);
  const draws = chosen !== undefined && !chosen.berth.capabilities.includes("chat");
  if (draws) return await drawing(conversation, signal);
  let frame = 0;
  try {
    let latest: Message | undefined;
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

/** A failure as a sentence with what to do. */
function whyNot(error: unknown): string {
  if (!(error instanceof ApiFailure)) return messageOf(error);
  if (error.status === 404) return `${error.message}. Choose another model above.`;
  if (error.status === 413) return `${error.message}. Send a smaller picture, or begin a new chat.`;
  return messageOf(error);
}
