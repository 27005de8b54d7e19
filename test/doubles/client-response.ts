import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";

/** Never connected: Node's own constructors want one. */
const unconnected = new Socket();

/** A DOUBLE of a client's request: nothing of it is read. */
export function clientRequest(): IncomingMessage {
  return new IncomingMessage(unconnected);
}

/**
 * A DOUBLE of the response to one client, without a socket. It writes down what its client gets and what Node would
 * not have stood for; the test says when the client reads slowly, reads on, or leaves.
 */
export class ClientResponse extends ServerResponse {
  /** All that was written after the head. */
  text = "";
  /** Answers of which there may be one only, and writes behind an end. */
  readonly faults: string[] = [];
  override headersSent = false;
  override writableEnded = false;
  override writableFinished = false;
  override writableLength = 0;
  #isSlow = false;

  constructor() {
    super(clientRequest());
  }

  /** It gets nothing more: all was sent, or it left. */
  get isOver(): boolean {
    return this.writableEnded || this.destroyed;
  }

  /** All of it has been read, or its client is gone. */
  get isClosed(): boolean {
    return this.writableFinished || this.destroyed;
  }

  readSlowly(): void {
    this.#isSlow = true;
    // More than what any answer lets wait.
    this.writableLength = 1_000_000;
  }

  readOn(): void {
    if (!this.#isSlow) return;
    this.#isSlow = false;
    this.writableLength = 0;
    if (this.writableEnded) this.#finish();
    else this.emit("drain");
  }

  leave(): void {
    this.destroy();
  }

  override writeHead(statusCode: number): this {
    if (this.headersSent) this.faults.push("a second head");
    this.headersSent = true;
    this.statusCode = statusCode;
    return this;
  }

  override flushHeaders(): void {
    if (!this.headersSent) this.faults.push("flushed without a head");
  }

  override write(bytes: unknown): boolean {
    this.#take(bytes);
    return !this.#isSlow;
  }

  override end(bytes?: unknown): this {
    if (bytes !== undefined) this.#take(bytes);
    if (this.writableEnded) this.faults.push("a second end");
    this.writableEnded = true;
    if (!this.#isSlow) this.#finish();
    return this;
  }

  override destroy(): this {
    if (this.isClosed) return this;
    this.destroyed = true;
    process.nextTick(() => this.emit("close"));
    return this;
  }

  #take(bytes: unknown): void {
    if (!this.headersSent) this.faults.push("written to before its head");
    if (this.writableEnded) this.faults.push("written to after its end");
    this.text += Buffer.isBuffer(bytes) ? bytes.toString() : String(bytes);
  }

  #finish(): void {
    if (this.isClosed) return;
    this.writableFinished = true;
    process.nextTick(() => this.emit("close"));
  }
}
