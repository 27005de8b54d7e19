import { Template } from "@huggingface/jinja";
import type { ChatMessage } from "./chat-request.ts";
import { errorMessage, Refusal } from "./refusal.ts";

/** The text between messages for a model without a template of its own. */
const fallback =
  "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

/** Texts at which a model without a template begins another turn: without a stop it would write both sides of the chat. */
export const fallbackEnds: readonly string[] = ["\nuser:", "\nsystem:", "\nassistant:"];

/** A chat that every template can render: one without tools, system message or answer. */
const simplest: readonly ChatMessage[] = [{ role: "user", content: "hi" }];

/**
 * Makes the prompt of a chat by the model's template. The result throws Refusal when the template refuses the messages,
 * or when this engine cannot render the template at all.
 */
export function chatRenderer(
  source: string | undefined,
  tokens: { readonly bos: string; readonly eos: string },
): (messages: readonly ChatMessage[]) => string {
  let parsed: Template | undefined;
  const render = (messages: readonly ChatMessage[]): string => {
    parsed ??= new Template(source ?? fallback);
    const values = {
      messages: messages.map((message) => ({ ...message })),
      add_generation_prompt: true,
      bos_token: tokens.bos,
      eos_token: tokens.eos,
    };
    try {
      return parsed.render(values);
    } catch {
      // Python takes a variable that is not set for an empty list, and the library does not. It is not always one: many
      // templates describe tools to the model wherever `tools` is set.
      return parsed.render({ ...values, tools: [] });
    }
  };
  return (messages) => {
    try {
      return render(messages);
    } catch (error) {
      try {
        render(simplest);
      } catch (cause) {
        const message = `this engine cannot render the model's chat template (${errorMessage(cause)}): run the model on llama-server`;
        throw new Refusal(400, message);
      }
      throw new Refusal(400, `the model's chat template refuses these messages: ${errorMessage(error)}`);
    }
  };
}
