import { createInterface, type Interface } from "node:readline";
import { chat, cutMessage, type Said } from "./chat.ts";
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
/new          forget what was said so far (or /clear)
/exit         leave (or /bye, Ctrl-D, or Ctrl-C where nothing is being answered)
Ctrl-C stops an answer. What is typed meanwhile is taken up after it.
`;

/**
 * A conversation with a model on a terminal: every message carries the earlier ones. Ctrl-C stops an answer; without
 * one it ends the conversation.
 */
export async function converse(options: ConversationOptions): Promise<void> {
  const { input, output } = options;
  const lines = createInterface({ input, output, terminal: true });
  const conversation = new Conversation(options);
  const write = (text: string): void => void output.write(text);
  write(`talking to ${options.model}; Ctrl-C stops an answer, /help lists the commands\n`);
  const typed = new TypedLines(lines);
  lines.once("close", () => conversation.stop());
  lines.on("SIGINT", () => {
    if (!conversation.stop()) lines.close();
  });
  for (;;) {
    const line = await typed.next(`${conversation.model}> `);
    if (line === undefined) {
      // The shell's prompt gets a line of its own.
      write("\n");
      break;
    }
    if (leaving.includes(line)) break;
    await conversation.take(line, write);
  }
  lines.close();
}

const leaving: readonly string[] = ["/exit", "/quit", "/bye"];
/** The number of lines that may be typed during an answer; a longer paste is cut. */
const mostLines = 100;

/** Lines in their order; lines without a reader are kept. */
class TypedLines {
  readonly #lines: Interface;
  readonly #waiting: string[] = [];
  #isClosed = false;
  #take: ((line: string | undefined) => void) | undefined;

  constructor(lines: Interface) {
    this.#lines = lines;
    lines.on("line", (line) => {
      if (this.#take !== undefined) this.#give(line.trim());
      else if (this.#waiting.length < mostLines) this.#waiting.push(line.trim());
    });
    lines.once("close", () => {
      this.#isClosed = true;
      this.#give(undefined);
    });
  }

  /** The next line; undefined when the input has ended. */
  async next(prompt: string): Promise<string | undefined> {
    if (this.#isClosed) return undefined;
    const waiting = this.#waiting.shift();
    if (waiting !== undefined) return waiting;
    return await new Promise((resolve) => {
      this.#take = resolve;
      this.#lines.setPrompt(prompt);
      this.#lines.prompt();
    });
  }

  #give(line: string | undefined): void {
    const take = this.#take;
    this.#take = undefined;
    take?.(line);
  }
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

  /** Stops the running answer. False without one. */
  stop(): boolean {
    if (this.#answering === undefined) return false;
    this.#answering.abort();
    return true;
  }

  /** Handles one typed line. A failure is printed, and the conversation continues. */
  async take(line: string, write: (text: string) => void): Promise<void> {
    if (line === "") return;
    const [command = "", ...words] = line.split(/\s+/);
    try {
      if (command === "/model") await this.#change(words.join(" "), write);
      else if (command === "/new" || command === "/clear") this.#said = [];
      else if (command === "/help" || command === "/?") write(help);
      else if (/^\/[a-z]+$/.test(command)) write(`${command} is not known; /help lists the commands\n`);
      else await this.#send(line, write);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      const isFull = this.#said.length > 0 && error.message.includes("exceeds the available context size");
      const next = isFull ? "/new starts an empty conversation" : error.next;
      write(`${error.message}${next === undefined ? "" : `; ${next}`}\n`);
    }
  }

  async #change(name: string, write: (text: string) => void): Promise<void> {
    const models = (await this.#options.client.list("GET /v1/models")).map(({ id }) => cell(id));
    if (name === "") write(`${models.join("\n")}\n`);
    else if (models.includes(name)) this.model = name;
    else write(`there is no slot or model called ${name}; /model lists them\n`);
  }

  async #send(content: string, write: (text: string) => void): Promise<void> {
    const { client, maxTokens, screen } = this.#options;
    const messages: readonly Said[] = [...this.#said, { role: "user", content }];
    this.#answering = new AbortController();
    const { signal } = this.#answering;
    let answer = "";
    let isCut = false;
    using line = new StatusLine(screen);
    try {
      const request = { model: this.model, messages, maxTokens, signal };
      const onWaiting = (text: string): void => line.show(text);
      for await (const piece of chat(client, request, { onWaiting, onCut: () => (isCut = true) })) {
        line[Symbol.dispose]();
        answer += piece;
        write(piece);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#answering = undefined;
      if (answer !== "") write("\n");
      if (isCut) write(`(${cutMessage})\n`);
    }
    // The part of a stopped answer belongs to the conversation too.
    if (answer !== "") this.#said = [...messages, { role: "assistant", content: answer }];
  }
}
