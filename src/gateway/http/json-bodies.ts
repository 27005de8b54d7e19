import { isUtf8 } from "node:buffer";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { ApiError } from "../../api/errors.ts";
import { invalidRequest } from "../../api/problems.ts";
import { excessOf, halfCharacter, isWellFormed } from "../../lib/json-limits.ts";
import { Charge, type BufferBudget } from "../slots/budget.ts";
import { readRequestBody } from "./body.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** The handler gets a body of JSON as its bytes, and checks it like others. */
    takesBytes?: boolean;
  }
  interface FastifyRequest {
    /** The charge of the body, until the answer has been sent; undefined: no body was read. */
    bodyCharge: Charge | undefined;
  }
}

/**
 * JSON is the only body of Fastify's routes, also where no body is needed: a body that a form of another site can send
 * without a preflight is 415, and so is a compressed body. Keys that would reach a prototype are 400, and so is a body
 * that no file could hold: values nested too deep, invalid UTF-8, and lone surrogates. A body is charged to the budget and
 * must come as fast as that of a chat.
 */
export function takeJsonOnly(app: FastifyInstance, budget: BufferBudget): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeAllContentTypeParsers();
  app.decorateRequest("bodyCharge", undefined);
  app.addHook("onResponse", (request, _reply, done) => {
    request.bodyCharge?.end();
    done();
  });
  app.addContentTypeParser("application/json", async (request: FastifyRequest) => {
    const { bodyLimit, config } = request.routeOptions;
    const charge = new Charge(budget);
    request.bodyCharge = charge;
    const body = await readRequestBody(request.raw, { bodyBytes: bodyLimit, charge });
    // Clients send the content type of a body that they then omit.
    if (body.length === 0) return undefined;
    const encoding = request.headers["content-encoding"]?.trim().toLowerCase() ?? "";
    if (encoding !== "" && encoding !== "identity") {
      const message = "a compressed body is not taken here: send it without content-encoding";
      throw new ApiError("dispatch.unsupported_media_type", { message });
    }
    if (config.takesBytes === true) return body;
    if (!isUtf8(body)) throw refused("is not UTF-8");
    const text = body.toString();
    const excess = excessOf(text);
    if (excess !== undefined) throw refused(excess);
    const parsed = Promise.withResolvers<unknown>();
    void parse(request, text, (error, value: unknown) =>
      error === null ? parsed.resolve(value) : parsed.reject(error),
    );
    const value = await parsed.promise;
    if (!isWellFormed(value)) throw refused(halfCharacter);
    return value;
  });
}

function refused(why: string): Error {
  return invalidRequest([{ path: [], message: `the body ${why}` }]);
}
