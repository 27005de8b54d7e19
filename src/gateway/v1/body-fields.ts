import { isUtf8 } from "node:buffer";
import { z } from "zod";
import { ApiError } from "../../api/errors.ts";
import { invalidRequest, problemsOf } from "../../api/problems.ts";
import type { SlotSpec } from "../../api/slot.ts";
import { foldCase } from "../../lib/fold-case.ts";
import { withFields } from "../../lib/json-fields.ts";
import { scanBody, type ScannedBody, type ScannedInput } from "../../lib/json-scan.ts";
import { mostDepth, mostMembers, mostPlainBytes, mostValues } from "../../lib/json-walk.ts";
import { isParseable } from "../../lib/json.ts";
import { parseRequest, requestFields } from "../protocols/json.ts";
import { listOf } from "../protocols/list-of.ts";
import { invalidJson } from "../relay/engine-failure.ts";
import { quotedName } from "../relay/rename.ts";

/** Throws ApiError `dispatch.invalid_request` or `dispatch.missing_model`. */
export function readModel(
  body: Buffer,
  defaultModel: (body: Buffer) => string | undefined = noModel,
): { scanned: ScannedBody; model: string } {
  if (!isUtf8(body)) throw new ApiError("dispatch.invalid_request", { message: "the body is not UTF-8" });
  const scanned = scanBody(body);
  if (scanned === undefined) throw invalidJson(body);
  if (scanned.isExcessive) throw excessiveBody();
  const { model, ambiguous } = scanned;
  if (ambiguous !== undefined)
    throw invalidRequest([{ path: [ambiguous], message: "must occur once, in this spelling" }]);
  if (model === undefined || model === "") {
    const isNone = !scanned.hasModel;
    const fallback = isNone ? defaultModel(body) : undefined;
    if (fallback !== undefined) return { scanned, model: fallback };
    const message = model === undefined && !isNone ? "must be a text" : "is required";
    throw new ApiError("dispatch.missing_model", {
      ...(message === "is required" ? {} : { message: `model ${message}` }),
      details: { path: ["model"], message },
    });
  }
  return { scanned, model };
}

export function noModel(): undefined {
  return undefined;
}

const bounds = [
  `at most ${mostDepth} levels`,
  `${mostMembers} fields of an object`,
  `${mostValues} names and values`,
  `and ${mostPlainBytes / 1024 ** 2} MiB beside its texts`,
].join(", ");

/** A scanned body with another name for the model, as parts of it. */
export function withModel(body: Buffer, at: ScannedBody | undefined, name: string): readonly Buffer[] {
  if (at === undefined || at.model === name || at.modelStart < 0) return [body];
  return [body.subarray(0, at.modelStart), quotedName(name), body.subarray(at.modelEnd)];
}

/**
 * The body with a slot's `request` rules applied: fields removed, then set unless the client sent them; a trailing `!`
 * forces. Other fields stay as they are written. The same buffer when there are no rules. Throws ApiError
 * `dispatch.invalid_request` for a body that is no JSON object.
 */
export function applyRules(body: Buffer, { set, strip }: SlotSpec["request"]): Buffer {
  const settings = Object.entries(set).map(([key, value]) => {
    const isForced = key.endsWith("!");
    return { name: isForced ? key.slice(0, -1) : key, isForced, value };
  });
  if (settings.length === 0 && strip.length === 0) return body;
  const taken = [...strip, ...settings.filter(({ isForced }) => isForced).map(({ name }) => name)];
  // In letters of another case too: some engines fold case.
  const folded = new Set(taken.map(foldCase));
  const kept = requestFields(body).filter(({ name }) => !folded.has(foldCase(name)));
  const names = new Set(kept.map(({ name }) => name));
  const added = settings.filter(({ name, isForced }) => isForced || !names.has(name));
  return withFields(body, kept, Object.fromEntries(added.map(({ name, value }) => [name, value])));
}

/** The error for a body that is beyond a bound of the scan, as the client sent it or as it is changed for an engine. */
export function excessiveBody(): ApiError {
  return invalidRequest([{ path: [], message: `the body holds too much: ${bounds}` }]);
}

/** The field with the main input, its allowed kinds, and whether every backend requires it. */
export interface InputRule {
  readonly field: ScannedInput;
  readonly kinds: readonly (keyof typeof firstBytes)[];
  readonly isRequired: boolean;
  /** The form in which every engine of a slot requires it; absent: the translation of the request checks it. */
  readonly formBeforeLoad?: z.ZodType;
}

/** Messages as all protocols have them; their content is the engine's. */
export const messageList = listOf(z.looseObject({ role: z.string() }, "must be a message")).check(
  z.minLength(1, "must hold at least one message"),
);
/** A text, its tokens, or both in turn, or a map for texts with pictures, which llama.cpp accepts. */
const oneText = z.union([z.string(), listOf(z.union([z.int(), z.string()])).check(z.minLength(1)), z.looseObject({})]);
export const oneOrMoreTexts = z.union(
  [oneText, listOf(oneText).check(z.minLength(1))],
  "must be a text or a list of texts",
);
export const responsesInput = z.union(
  [z.string(), listOf(z.looseObject({}, "must be an item")).check(z.minLength(1, "must hold at least one item"))],
  "must be a text or a list of items",
);

/** The first byte of JSON values. */
const firstBytes = { text: 0x22, list: 0x5b, map: 0x7b } as const;
/** Absent, true, false and null. */
const firstBytesOfStream: readonly number[] = [0, ...Buffer.from("tfn")];

/** Throws ApiError `dispatch.invalid_request` that names the field. */
export function checkKinds(
  { first }: Pick<ScannedBody, "first">,
  { inputRule, hasStreams }: { readonly inputRule: InputRule | undefined; readonly hasStreams: boolean },
): void {
  if (hasStreams && !firstBytesOfStream.includes(first.stream))
    throw invalidRequest([{ path: ["stream"], message: "must be true or false" }]);
  if (inputRule === undefined) return;
  const { field, kinds, isRequired } = inputRule;
  const found = first[field];
  if (found === 0 && !isRequired) return;
  if (found === 0) throw invalidRequest([{ path: [field], message: "is required" }]);
  if (!kinds.some((kind) => firstBytes[kind] === found))
    throw invalidRequest([{ path: [field], message: `must be a ${kinds.join(" or a ")}` }]);
}

/**
 * Parses the body and checks its main input: a request that every engine would refuse must not load a model. A body that is
 * too large to be parsed is left to the engine. Throws ApiError `dispatch.invalid_request` that names the field.
 */
export function checkBeforeLoad(body: Buffer, { field, formBeforeLoad }: InputRule): void {
  if (formBeforeLoad === undefined || !isParseable(body)) return;
  const parsed = formBeforeLoad.safeParse(parseRequest(body)[field] ?? undefined);
  if (parsed.success) return;
  throw invalidRequest(problemsOf(parsed.error).map(({ path, message }) => ({ path: [field, ...path], message })));
}
