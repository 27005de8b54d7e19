import { createServer, type ServerResponse } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { z } from "zod";
import { listen } from "../../support/listen.ts";

/** The protocol, strictly: opentelemetry-proto, trace/v1, in its JSON encoding, whose integers may be numbers. */
const attributes = z.array(
  z.strictObject({
    key: z.string().min(1),
    value: z.union([
      z.strictObject({ stringValue: z.string() }),
      z.strictObject({ intValue: z.coerce.string().regex(/^\d+$/) }),
    ]),
  }),
);
const nanos = z.string().regex(/^\d{19}$/);
const spanId = z.string().regex(/^[0-9a-f]{16}$/);
export const spanSchema = z
  .strictObject({
    traceId: z.string().regex(/^[0-9a-f]{32}$/),
    spanId,
    parentSpanId: spanId.optional(),
    name: z.string().min(1),
    kind: z.union([z.literal(1), z.literal(2), z.literal(3)]),
    startTimeUnixNano: nanos,
    endTimeUnixNano: nanos,
    attributes,
    status: z.strictObject({ code: z.union([z.literal(0), z.literal(2)]) }),
    flags: z.int(),
    droppedAttributesCount: z.literal(0),
    events: z.tuple([]),
    droppedEventsCount: z.literal(0),
    links: z.tuple([]),
    droppedLinksCount: z.literal(0),
  })
  .refine(({ startTimeUnixNano: from, endTimeUnixNano: to }) => BigInt(from) <= BigInt(to), "ends after its start");
const exportSchema = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource: z.strictObject({ attributes, droppedAttributesCount: z.literal(0) }),
      scopeSpans: z.array(
        z.strictObject({
          scope: z.strictObject({ name: z.string(), version: z.string() }),
          spans: z.array(spanSchema),
        }),
      ),
    }),
  ),
});
export type Span = z.output<typeof spanSchema>;

export interface Receiver extends AsyncDisposable {
  readonly url: string;
  readonly spans: Span[];
  /** How many spans came together. */
  readonly batches: number[];
  readonly texts: string[];
}

/** A receiver of OTLP/HTTP that refuses whatever the protocol does not allow. */
export async function startReceiver(
  answer: (response: ServerResponse) => void = (response) => void response.end("{}"),
): Promise<Receiver> {
  const [spans, batches, texts]: [Span[], number[], string[]] = [[], [], []];
  const server = createServer((request, response) => {
    void textOf(request).then((body) => {
      const parsed = exportSchema.safeParse(JSON.parse(body));
      texts.push(parsed.success ? body : `${body} ${parsed.error.message}`);
      const isRight = request.method === "POST" && request.url === "/v1/traces";
      if (!parsed.success || !isRight || request.headers["content-type"] !== "application/json") {
        response.writeHead(400).end("{}");
        return;
      }
      const batch = parsed.data.resourceSpans.flatMap((each) => each.scopeSpans.flatMap((scope) => scope.spans));
      spans.push(...batch);
      batches.push(batch.length);
      answer(response);
    });
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    batches,
    texts,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    },
  };
}
