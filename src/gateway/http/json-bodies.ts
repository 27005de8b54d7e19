import { isUtf8 } from "node:buffer";
import type { FastifyInstance } from "fastify";
import { ApiError } from "../../api/errors.ts";
import { invalidRequest } from "../../api/problems.ts";
import { excessOf, halfCharacter, isWellFormed } from "../../lib/json-limits.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** The handler gets a body of JSON as its bytes, and checks it like others. */
    takesBytes?: boolean;
  }
}

/**
 * JSON is the only body of Fastify's routes, also where no body is needed: a body that a form of another site can send
 * without a preflight is 415, and so is a compressed body. Keys that would reach a prototype are 400, and so is a body
 * that no file could hold: values nested too deep, invalid UTF-8, and lone surrogates.
 */
export function takeJsonOnly(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body, done) => {
    // Clients send the content type of a body that they then omit.
    if (body.length === 0) {
      done(null, undefined);
      return;
    }
    const encoding = request.headers["content-encoding"]?.trim().toLowerCase() ?? "";
    if (encoding !== "" && encoding !== "identity") {
      const message = "a compressed body is not taken here: send it without content-encoding";
      done(new ApiError("dispatch.unsupported_media_type", { message }));
      return;
    }
    if (request.routeOptions.config.takesBytes === true) {
      done(null, body);
      return;
    }
    if (typeof body === "string" || !isUtf8(body)) {
      done(refused("is not UTF-8"));
      return;
    }
    const text = body.toString();
    const excess = excessOf(text);
    if (excess !== undefined) {
      done(refused(excess));
      return;
    }
    void parse(request, text, (error, value: unknown) => {
      if (error === null && !isWellFormed(value)) done(refused(halfCharacter));
      else done(error, value);
    });
  });
}

function refused(why: string): Error {
  return invalidRequest([{ path: [], message: `the body ${why}` }]);
}
