import type { IncomingMessage } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ApiError } from "../../api/errors.ts";
import { withoutMark } from "../../lib/json-bytes.ts";
import { decodeBody, readRequestBody, type BodyLimits } from "../http/body.ts";
import { plainErrors, type ErrorForm } from "../http/error-form.ts";
import { noModel, type InputRule } from "./body-fields.ts";
import { JsonRequest, type OtherInput } from "./json-request.ts";
import type { JsonTarget, JsonTargetOf } from "./json-target.ts";
import type { V1Route } from "./route.ts";

export interface JsonRouteOptions {
  readonly path: string;
  readonly summary: string;
  readonly aliasPaths?: readonly string[];
  readonly errors?: ErrorForm;
  /** False: `stream` has no meaning there. */
  readonly hasStreams?: boolean;
  /** The field with the main input, its allowed kinds, and whether it is required. */
  readonly inputRule?: InputRule;
  /** True: the answer is stored for its client, so that its streams are not shared with other clients. */
  readonly isKept?: boolean;
  /** The default model of a body without one; absent or undefined: that is an error. */
  readonly defaultModel?: (body: Buffer) => string | undefined;
  /** Content type of a usual answer, for people; default: JSON. */
  readonly gives?: string | readonly string[];
  /** A function is called once per request. Throws ApiError where the backend lacks the route. */
  readonly target: JsonTarget | JsonTargetOf;
  /** For bodies with another main input that lack this route's own. */
  readonly otherInput?: OtherInput | undefined;
}

const largeBytes = 4 * 1024 * 1024;

/** A route whose request is one JSON object with `model`, relayed unchanged wherever possible. */
export function jsonRoute({
  path,
  summary,
  aliasPaths = [],
  errors = plainErrors,
  hasStreams = true,
  inputRule,
  isKept = false,
  defaultModel = noModel,
  gives = hasStreams ? ["application/json", "text/event-stream"] : "application/json",
  target,
  otherInput,
}: JsonRouteOptions): V1Route {
  const rules = { hasStreams, inputRule, isKept, defaultModel, target, otherInput };
  return {
    method: "POST",
    path,
    about: {
      summary,
      takes: "application/json",
      gives,
      ...(errors.form === undefined ? {} : { errors: errors.form }),
      inputRule,
    },
    aliasPaths,
    errors,
    async read(request, limits, owner) {
      const body = await readJsonBody(request, limits);
      return new JsonRequest(body, { charge: limits.charge, owner }, rules);
    },
  };
}

/**
 * The bytes of a body of JSON without their encoding and without a byte order mark, which some clients send and engines
 * refuse. Rejects as `readRequestBody` and `decodeBody` do, and with ApiError `dispatch.unsupported_media_type`.
 */
export async function readJsonBody(request: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  checkJsonType(request);
  let body = await readRequestBody(request, limits);
  if (request.headers["content-encoding"] !== undefined) body = await decodeBody(request, body, limits);
  // Copying a large body into one buffer took long enough: others are served before it is read.
  if (body.length > largeBytes) await nextTurn();
  return withoutMark(body);
}

function checkJsonType(request: IncomingMessage): void {
  const type = request.headers["content-type"];
  // curl -d sends a form's content type for JSON; OpenAI's own API accepts it too.
  if (type === undefined || /^application\/(json|x-www-form-urlencoded)\b/i.test(type)) return;
  throw new ApiError("dispatch.unsupported_media_type", { message: "the body must be application/json" });
}
