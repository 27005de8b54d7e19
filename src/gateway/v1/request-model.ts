import { isUtf8 } from "node:buffer";
import { ApiError } from "../../api/errors.ts";
import { invalidRequest } from "../../api/problems.ts";
import { scanBody, type ScannedBody } from "../../lib/json-scan.ts";
import { mostDepth, mostMembers, mostPlainBytes, mostValues } from "../../lib/json-walk.ts";
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

/** The error for a body that is beyond a bound of the scan, as the client sent it or as it is changed for an engine. */
export function excessiveBody(): ApiError {
  return invalidRequest([{ path: [], message: `the body holds too much: ${bounds}` }]);
}
