import { Readable } from "node:stream";

/** A body that is read while it is sent, and therefore only once. */
export interface Upload {
  readonly headers: { readonly "content-type": string; readonly "content-length"?: number };
  /** May throw ApiError, which then ends the request. A chunk is valid until the next is asked for. */
  readonly body: AsyncIterable<Buffer>;
}

/** All of it, to be kept until the provider answers; or an upload, opened when the request is about to be sent. */
export type ProviderBody = readonly Buffer[] | (() => Upload);

/**
 * An upload as undici takes it. `onBegin` is called before the first chunk is asked for: until then it can be sent
 * anew. `onSilence` when no chunk comes for `silenceMs` while one is wanted.
 */
export function uploadStream(
  { body }: Upload,
  options: { readonly silenceMs: number; readonly onBegin: () => void; readonly onSilence: () => void },
): Readable {
  const { silenceMs, onBegin, onSilence } = options;
  return Readable.from(
    (async function* () {
      onBegin();
      let timer = setTimeout(onSilence, silenceMs);
      try {
        for await (const chunk of body) {
          clearTimeout(timer);
          // undici keeps what the system has not taken yet.
          yield Buffer.from(chunk);
          timer = setTimeout(onSilence, silenceMs);
        }
      } finally {
        clearTimeout(timer);
      }
    })(),
    { highWaterMark: 1 },
  );
}
