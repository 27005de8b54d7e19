import type { FastifyInstance } from "fastify";

/**
 * JSON is the only body that Fastify's routes take, with or without a body where none is needed: whatever a form of
 * another site can send without asking is 415. Keys that would reach a prototype are 400.
 */
export function takeJsonOnly(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "string" }, (request, body, done) => {
    // Clients name the type of a body that they then do not send.
    if (body.length === 0) done(null, undefined);
    else void parse(request, body.toString(), done);
  });
}
