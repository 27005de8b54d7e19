import { createInterface, type Interface } from "node:readline";
import { chat, type Said } from "./chat.ts";
import { CommandError, type Client } from "./client.ts";
import { cell } from "./output.ts";
import { StatusLine, type Screen } from "./terminal.ts";

export interface ConversationOptions {
  readonly client: Client;
  /** A slot or a model. */
  readonly model: string;
  readonly maxTokens: number | undefined;
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
  readonly screen: Screen;
}

const help = `/model NAME   ask another slot or model from now on; without a name: which there are
/new          forget what was said so far
/exit         leave (Ctrl-D, or Ctrl-C where nothing is being answered)
Ctrl-C stops an answer.
`;

/**
 * Talks with a model on a terminal until the person leaves: what was said so far goes with every message. Ctrl-C stops an
 * answer; where none is under way it leaves.
 */
export async function converse(options: ConversationOptions): Promise<void> {
  const { input, output } = options;
  const lines = createInterface({ input, output, terminal: true });
  const conversation = new Conversation(options);
  const write = (text: string): void => void output.write(text);
  write(`talking to ${options.model}; /help says what else can be typed\n`);
  const left = new AbortController();
  lines.once("close", () => {
    left.abort();
    conversation.stop();
  });
  lines.on("SIGINT", () => {
    if (!conversation.stop()) lines.close();
  });
  for (;;) {
    const line = await asked(lines, left.signal, `${conversation.model}> `);
    if (line === undefined || line === "/exit" || line === "/quit") break;
    await conversation.take(line, write);
  }
  lines.close();
}

/** The next line; undefined: the person has left. */
async function asked(lines: Interface, left: AbortSignal, prompt: string): Promise<string | undefined> {
  if (left.aborted) return undefined;
  return await new Promise((resolve) => {
    const onClose = (): void => resolve(undefined);
    lines.once("close", onClose);
    lines.question(prompt, (line) => {
      lines.off("close", onClose);
      resolve(line.trim());
    });
  });
}

class Conversation {
  readonly #options: ConversationOptions;
  #said: readonly Said[] = [];
  #answering: AbortController | undefined;
  model: string;

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.model = options.model;
  }

  /** Stops the answer that is under way. False where there is none. */
  stop(): boolean {
    if (this.#answering === undefined) return false;
    this.#answering.abort();
    return true;
  }

  /** One line that was typed. A failure is told, and the conversation goes on. */
  async take(line: string, write: (text: string) => void): Promise<void> {
    if (line === "") return;
    const [command = "", ...words] = line.split(/\s+/);
    try {
      if (command === "/model") await this.#change(words.join(" "), write);
      else if (command === "/new") this.#said = [];
      else if (command === "/help" || command === "/?") write(help);
      else if (/^\/[a-z]+$/.test(command)) write(`${command} is not known; /help says what is\n`);
      else await this.#ask(line, write);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      write(`${error.message}${error.next === undefined ? "" : `; ${error.next}`}\n`);
    }
  }

  async #change(name: string, write: (text: string) => void): Promise<void> {
    const models = (await this.#options.client.list("/v1/models")).map(({ id }) => cell(id));
    if (name === "") write(`${models.join("\n")}\n`);
    else if (models.includes(name)) this.model = name;
    else write(`there is no slot or model called ${name}; /model lists what there is\n`);
  }

  async #ask(content: string, write: (text: string) => void): Promise<void> {
    const { client, maxTokens, screen } = this.#options;
    const messages: readonly Said[] = [...this.#said, { role: "user", content }];
    this.#answering = new AbortController();
    const { signal } = this.#answering;
    let answer = "";
    using line = new StatusLine(screen);
    try {
      const request = { model: this.model, messages, maxTokens, signal };
      for await (const piece of chat(client, request, (text) => line.show(text))) {
        line[Symbol.dispose]();
        answer += piece;
        write(piece);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#answering = undefined;
      if (answer !== "") write("\n");
    }
    // What was stopped was said all the same, as far as it came.
    if (answer !== "") this.#said = [...messages, { role: "assistant", content: answer }];
  }
}
