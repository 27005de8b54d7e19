import { invalidRequest } from "../../api/problems.ts";
import type { ScannedBody, ScannedInput } from "../../lib/json-scan.ts";

/** The field with the main input, its allowed kinds, and whether it is required. */
export interface InputRule {
  readonly field: ScannedInput;
  readonly kinds: readonly (keyof typeof firstBytes)[];
  readonly isRequired: boolean;
}

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
