import { ApiError } from "../../../api/errors.ts";
import { invalidRequest } from "../../../api/problems.ts";
import { isRecord } from "../../../lib/record.ts";
import { parseRequest } from "../../protocols/json.ts";

/** A client's request for `/v1/images/generations`. An absent field is undefined: the workflow decides. */
export interface ImageRequest {
  readonly model: string;
  readonly prompt: string;
  readonly negativePrompt: string | undefined;
  readonly count: number;
  readonly size: ImageSize | undefined;
  readonly responseFormat: "url" | "b64_json";
  readonly seed: number | undefined;
  readonly steps: number | undefined;
  readonly cfg: number | undefined;
}

export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

const promptLimit = 32_000;
const sideMin = 64;
const sideMax = 2048;
const sideStep = 8;

/**
 * Parses and checks the body of an image request. The extension fields (`seed`, `steps`, `cfg`, `negative_prompt`) are
 * at the top level, as SDKs send `extra_body`, or inside `extra_body`; the top level takes precedence. Fields of
 * OpenAI's API that no workflow supports and that change only the picture (`quality`, `style`, `user`) are ignored.
 * Throws ApiError `dispatch.invalid_request` with `details {path, message}`, or `dispatch.missing_model`.
 */
export function parseImageRequest(body: Buffer): ImageRequest {
  const fields = parseRequest(body);
  const nested = fields["extra_body"];
  if (nested !== undefined && nested !== null && !isRecord(nested)) throw invalid(["extra_body"], "must be an object");
  const extension = (name: string): Field => {
    const value = fields[name] ?? undefined;
    if (value !== undefined || !isRecord(nested)) return { path: [name], value };
    return { path: ["extra_body", name], value: nested[name] ?? undefined };
  };
  const model = fields["model"] ?? undefined;
  if (model === undefined || model === "")
    throw new ApiError("dispatch.missing_model", { details: { path: ["model"], message: "is required" } });
  if (typeof model !== "string") throw invalid(["model"], "must be a string");
  const prompt = text({ path: ["prompt"], value: fields["prompt"] ?? undefined });
  if (prompt === undefined || prompt.trim() === "") throw invalid(["prompt"], "is required");
  refuseUnknownForm(fields);
  return {
    model,
    prompt,
    negativePrompt: text(extension("negative_prompt")),
    count: whole({ path: ["n"], value: fields["n"] ?? undefined }, 1, 8) ?? 1,
    size: sizeOf(fields["size"] ?? undefined),
    responseFormat: oneOf("response_format", fields["response_format"] ?? "url", ["url", "b64_json"] as const),
    seed: whole(extension("seed"), 0, Number.MAX_SAFE_INTEGER),
    steps: whole(extension("steps"), 1, 150),
    cfg: number(extension("cfg"), 0, 30),
  };
}

interface Field {
  readonly path: readonly string[];
  readonly value: unknown;
}

function invalid(path: readonly string[], message: string): ApiError {
  return invalidRequest([{ path, message }]);
}

/** A client of another file format or of a stream of partial images could not read the answer. */
function refuseUnknownForm(fields: Record<string, unknown>): void {
  oneOf("output_format", fields["output_format"] ?? "png", ["png"] as const);
  if ((fields["stream"] ?? false) !== false) throw invalid(["stream"], "images are not streamed: leave it out");
}

function text({ path, value }: Field): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "string") throw invalid(path, "must be a string");
  if (value.length > promptLimit) throw invalid(path, `must be at most ${promptLimit} characters long`);
  return value;
}

function number({ path, value }: Field, min: number, max: number): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "number" || !(value >= min && value <= max))
    throw invalid(path, `must be a number from ${min} to ${max}`);
  return value;
}

function whole({ path, value }: Field, min: number, max: number): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min || value > max)
    throw invalid(path, `must be a whole number from ${min} to ${max}`);
  return value;
}

function oneOf<T extends string>(name: string, value: unknown, allowed: readonly T[]): T {
  const found = allowed.find((word) => word === value);
  if (found === undefined) throw invalid([name], `must be ${allowed.join(" or ")}`);
  return found;
}

function sizeOf(value: unknown): ImageSize | undefined {
  if (value === undefined || value === "auto") return undefined;
  const match = typeof value === "string" ? /^(\d{1,5})x(\d{1,5})$/.exec(value) : null;
  if (match === null) throw invalid(["size"], "must be <width>x<height>, such as 512x512");
  const size = { width: Number(match[1]), height: Number(match[2]) };
  for (const side of [size.width, size.height]) {
    if (side < sideMin || side > sideMax || side % sideStep !== 0)
      throw invalid(["size"], `must have sides from ${sideMin} to ${sideMax} that are multiples of ${sideStep}`);
  }
  return size;
}
