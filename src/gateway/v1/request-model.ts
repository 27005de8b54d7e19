import { isUtf8 } from "node:buffer";
import { ApiError } from "../../api/errors.ts";
import { invalidRequest } from "../../api/problems.ts";
import { mostDepth, mostMembers, scanBody, type ScannedBody } from "../../lib/json-scan.ts";
import { isRecord } from "../../lib/record.ts";
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
  if (scanned.isExcessive) {
    const message = `is nested deeper than ${mostDepth} levels, or has an object of more than ${mostMembers} fields`;
    throw invalidRequest([{ path: [], message: `the body ${message}` }]);
  }
  const { model, ambiguous } = scanned;
  if (ambiguous !== undefined)
    throw invalidRequest([{ path: [ambiguous], message: "must occur once, in this spelling" }]);
  if (model === undefined || model === "") {
    const isNone = model === undefined && !hasModel(body);
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

function hasModel(body: Buffer): boolean {
  try {
    const parsed: unknown = JSON.parse(body.toString());
    return isRecord(parsed) && "model" in parsed;
  } catch {
    return false;
  }
}

/** A scanned body with another name for the model, as parts of it. */
export function withModel(body: Buffer, at: ScannedBody | undefined, name: string): readonly Buffer[] {
  if (at === undefined || at.model === name || at.modelStart < 0) return [body];
  return [body.subarray(0, at.modelStart), quotedName(name), body.subarray(at.modelEnd)];
}
