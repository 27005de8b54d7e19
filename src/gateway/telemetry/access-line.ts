import { modelsAsKey, RequestKinds } from "./request-kinds.ts";
import type { EndedRequest } from "./request-record.ts";
import { escapedUnitBytes, numberBytes, putDigits, putNumber, putPart, putShort, putText } from "./line-bytes.ts";

/** pino's number of the level "info". */
const info = 30;

/** The line of a request in the access log: what it has in common with others stands before its figures. */
export class AccessLine {
  readonly #request: EndedRequest;
  #kind: LineKind | undefined;

  constructor(request: EndedRequest) {
    this.#request = request;
  }

  /** `put` takes no more bytes. */
  get mostBytes(): number {
    this.#kind ??= kinds.of(this.#request);
    return this.#kind.mostBytes + this.#request.requestId.length * escapedUnitBytes;
  }

  /** Writes the line with its end into memory, and returns where it ends. Unknown fields are left out. */
  put(memory: Buffer, at: number): number {
    const { requestId, endedAt, seconds, record } = this.#request;
    const { heldMs, queuedMs, firstTokenMs, engine } = record;
    this.#kind ??= kinds.of(this.#request);
    let end = putText(memory, putPart(memory, at, begin.of(endedAt)), requestId);
    end = putNumber(memory, putPart(memory, end, this.#kind.part), Math.round(seconds * 1000));
    if (heldMs >= 1) end = putFigure(memory, end, heldPart, Math.round(heldMs));
    if (queuedMs >= 1) end = putFigure(memory, end, queuedPart, Math.round(queuedMs));
    if (firstTokenMs > 0) end = putFigure(memory, end, firstTokenPart, Math.round(firstTokenMs));
    if (engine !== undefined) {
      const { ms, tokensIn, tokensOut } = engine;
      end = putFigure(memory, end, enginePart, Math.round(ms));
      if (tokensIn !== undefined) end = putFigure(memory, end, tokensInPart, tokensIn);
      if (tokensOut !== undefined) end = putFigure(memory, end, tokensOutPart, tokensOut);
    }
    return putShort(memory, end, endPart);
  }

  /** The same as text. */
  text(): string {
    const memory = Buffer.allocUnsafe(this.mostBytes);
    return memory.toString("utf8", 0, this.put(memory, 0));
  }
}

function putFigure(memory: Buffer, at: number, name: Buffer, value: number): number {
  return putNumber(memory, putShort(memory, at, name), value);
}

const heldPart = Buffer.from(',"heldMs":');
const queuedPart = Buffer.from(',"queuedMs":');
const firstTokenPart = Buffer.from(',"firstTokenMs":');
const enginePart = Buffer.from(',"engineMs":');
const tokensInPart = Buffer.from(',"tokensIn":');
const tokensOutPart = Buffer.from(',"tokensOut":');
const endPart = Buffer.from("}\n");
/** The most bytes of these with their numbers, of the number of `ms`, and of the end. */
const figuresBytes = 7 * (firstTokenPart.length + numberBytes) + endPart.length;

/** A line up to its request's id. */
class Begin {
  #time = -1;
  #second = -1;
  #part = Buffer.alloc(0);
  /** Where the last three digits of the time begin. */
  #msAt = 0;

  of(time: number): Buffer {
    // Requests that end together end in the same millisecond, and a large number is the dearest part of a line.
    if (time === this.#time) return this.#part;
    const second = Math.trunc(time / 1000);
    if (second === this.#second && second > 0) putDigits(this.#part, this.#msAt, time - second * 1000, 3);
    else {
      const untilTime = `{"level":${info},"time":${time}`;
      this.#part = Buffer.from(`${untilTime},"component":"gateway","requestId":"`);
      this.#msAt = untilTime.length - 3;
      this.#second = second;
    }
    this.#time = time;
    return this.#part;
  }
}

const begin = new Begin();
const beginBytes = new Begin().of(0).length + numberBytes;

/** The fields that lines of one kind share. */
interface KindFields {
  readonly path: string;
  readonly slot: string;
  readonly code: number;
  readonly failure: string | undefined;
  readonly requestedModel: string;
  readonly isStream: boolean;
  readonly leftOut: string;
  /** Undefined: no engine answered. */
  readonly model: string | undefined;
}

interface LineKind extends KindFields {
  /** From the request's id to its figures. */
  readonly part: Buffer;
  /** The most bytes of a line, without its request's id. */
  readonly mostBytes: number;
}

const kinds = new RequestKinds<LineKind>({
  isOf: (kind, { path, slot, code, failure, record }) =>
    kind.path === path &&
    kind.slot === slot &&
    kind.code === code &&
    kind.failure === failure?.code &&
    kind.requestedModel === record.requestedModel &&
    kind.isStream === record.isStream &&
    kind.leftOut === record.leftOut &&
    kind.model === record.engine?.model,
  keyOf: ({ path, slot, code, failure, record: { requestedModel, isStream, leftOut, engine } }) =>
    `${path}\n${slot}\n${code} ${failure?.code} ${isStream} ${leftOut}\n${modelsAsKey(requestedModel, engine?.model)}`,
  make: ({ path, slot, code, failure, record: { requestedModel, isStream, leftOut, engine } }) =>
    newKind({ path, slot, code, failure: failure?.code, requestedModel, isStream, leftOut, model: engine?.model }),
});

function newKind(fields: KindFields): LineKind {
  const { path, slot, code, failure, requestedModel, isStream, leftOut, model } = fields;
  const asked = requestedModel === "" ? "" : `,"asked":${JSON.stringify(requestedModel)}`;
  const stream = isStream ? ',"stream":true' : "";
  const left = leftOut === "" ? "" : `,"leftOut":${JSON.stringify(leftOut)}`;
  const resolved = model === undefined ? "" : `,"resolved":${JSON.stringify(model)}`;
  const failed = failure === undefined ? "" : `,"failure":${JSON.stringify(failure)}`;
  const message = `${path} ${slot} ${code}${failure === undefined ? "" : ` ${failure}`}`;
  const outcome = `"slot":${JSON.stringify(slot)},"status":${code}${asked}${stream}${left}${resolved}${failed}`;
  const part = Buffer.from(`",${outcome},"msg":${JSON.stringify(message)},"ms":`);
  return { ...fields, part, mostBytes: beginBytes + part.length + figuresBytes };
}
