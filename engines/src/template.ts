import { Template } from "@huggingface/jinja";
import type { ChatMessage } from "./chat-request.ts";
import { errorMessage, Refusal } from "./refusal.ts";

/** The text between messages for a model without a template of its own. */
const fallback =
  "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

/** The prompt of a chat. Throws Refusal when the model's template refuses the messages. */
export function renderChat(
  source: string | undefined,
  messages: readonly ChatMessage[],
  tokens: { bos: string; eos: string },
): string {
  try {
    return new Template(source ?? fallback).render({
      messages: messages.map((message) => ({ ...message })),
      add_generation_prompt: true,
      bos_token: tokens.bos,
      eos_token: tokens.eos,
    });
  } catch (error) {
    throw new Refusal(400, `the model's chat template refuses these messages: ${errorMessage(error)}`);
  }
}
