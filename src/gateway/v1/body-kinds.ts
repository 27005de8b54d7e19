import { z } from "zod";
import { invalidRequest, problemsOf } from "../../api/problems.ts";
import type { ScannedBody, ScannedInput } from "../../lib/json-scan.ts";
import { isParseable } from "../../lib/json.ts";
import { parseRequest } from "../protocols/json.ts";
import { listOf } from "../protocols/list-of.ts";

/** The field with the main input, its allowed kinds, and whether every backend requires it. */
export interface InputRule {
  readonly field: ScannedInput;
  readonly kinds: readonly (keyof typeof firstBytes)[];
  readonly isRequired: boolean;
  /** The form in which every engine of a slot requires it; absent: the translation of the request checks it. */
  readonly engineForm?: z.ZodType;
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
export function checkWhole(body: Buffer, { field, engineForm }: InputRule): void {
  if (engineForm === undefined || !isParseable(body)) return;
  const parsed = engineForm.safeParse(parseRequest(body)[field] ?? undefined);
  if (parsed.success) return;
  throw invalidRequest(problemsOf(parsed.error).map(({ path, message }) => ({ path: [field, ...path], message })));
}
