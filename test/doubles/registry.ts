import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { arch } from "node:os";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { serve } from "../support/listen.ts";

/** One GET of a blob. */
export interface BlobFetch {
  readonly digest: string;
  /** Whether the container engine has closed its connection. */
  readonly hasLeft: () => boolean;
  /** The first byte that was asked for. */
  readonly from: number;
}

export interface BlobFault {
  /** Not a byte is sent before. */
  readonly after?: Promise<unknown>;
  /** The connection is closed before this byte of the blob. */
  readonly cutAt?: number;
  /** From there on it comes byte by byte, and is cut when the container engine has left, or by the end of the double. */
  readonly isSlow?: boolean;
}

export interface RegistryDouble extends AsyncDisposable {
  /** `127.0.0.1:port`, which Docker takes for insecure and so needs no certificate for. */
  readonly address: string;
  /** Every GET of a blob, in order. */
  readonly fetched: readonly BlobFetch[];
  /** Resolves once the blob was sent to its end. */
  sent(digest: string): Promise<void>;
  /** From now on answers whatever asks for that path with this. */
  answer(path: RegExp, status: number, headers: Readonly<Record<string, string>>, body: object): void;
  /** Faults of the next GETs of that blob, in order; those after them get all of it. */
  meet(digest: string, ...faults: readonly BlobFault[]): void;
  /** Serves an image whose layers are these tar files. Resolves with its name and the layers' digests. */
  add(
    name: string,
    layers: readonly string[],
    config: object,
  ): Promise<{ readonly image: string; readonly layers: readonly string[] }>;
}

interface Blob {
  readonly bytes: number;
  /** All of it from that byte, up to another. */
  read(from: number, end: number): Readable;
}

/**
 * A DOUBLE of an image registry on loopback: it serves images that it was handed by the routes a pull needs, goes on
 * within a blob where it is asked to, counts what is fetched, and breaks off as told. It takes nothing in and knows no
 * passwords; the real docker-registry does in `test/docker/registry.ts`.
 * https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pull
 */
export async function startRegistryDouble(): Promise<RegistryDouble> {
  const blobs = new Map<string, Blob>();
  const manifests = new Map<string, Buffer>();
  const faults = new Map<string, BlobFault[]>();
  const fetched: BlobFetch[] = [];
  const answers: { readonly path: RegExp; readonly send: (to: ServerResponse, hasBody: boolean) => void }[] = [];
  const ends = new Map<string, PromiseWithResolvers<void>>();
  const endOf = (digest: string): PromiseWithResolvers<void> => {
    const end = ends.get(digest) ?? Promise.withResolvers<void>();
    ends.set(digest, end);
    return end;
  };

  const serveBlob = async (digest: string, incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const blob = blobs.get(digest);
    if (blob === undefined) return void response.writeHead(404).end();
    const from = Number(/^bytes=(\d+)-/.exec(incoming.headers.range ?? "")?.[1] ?? 0);
    const headers = { "content-type": "application/octet-stream", "docker-content-digest": digest };
    const length = { "content-length": blob.bytes - from };
    if (incoming.method === "HEAD") return void response.writeHead(200, { ...headers, ...length }).end();
    fetched.push({ digest, from, hasLeft: () => response.destroyed });
    const { after, cutAt = blob.bytes, isSlow = false } = faults.get(digest)?.shift() ?? {};
    await after;
    const range = { "content-range": `bytes ${from}-${blob.bytes - 1}/${blob.bytes}` };
    response.writeHead(from === 0 ? 200 : 206, { ...headers, ...length, ...(from === 0 ? {} : range) });
    await pipeline(blob.read(from, cutAt), response, { end: cutAt === blob.bytes });
    if (cutAt === blob.bytes) endOf(digest).resolve();
    else {
      if (isSlow) await dripped(blob, from + cutAt, response);
      response.destroy();
    }
  };
  const answered = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const own = answers.find(({ path }) => path.test(incoming.url ?? ""));
    if (own !== undefined) return own.send(response, incoming.method !== "HEAD");
    const [, kind, name = ""] = /\/(manifests|blobs)\/([^/?]+)/.exec(incoming.url ?? "") ?? [];
    if (kind === "blobs") return await serveBlob(name, incoming, response);
    const body = kind === "manifests" ? manifests.get(name) : Buffer.from("{}");
    if (body === undefined) return void response.writeHead(404).end();
    const type = kind === "manifests" ? manifestType : "application/json";
    response.writeHead(200, {
      "content-type": type,
      "content-length": body.length,
      "docker-content-digest": digestOf(body),
    });
    response.end(incoming.method === "HEAD" ? undefined : body);
  };
  const server = await serve((incoming, response) => {
    // The client may leave, and is cut off.
    answered(incoming, response).catch(() => response.destroy());
  });
  const address = `127.0.0.1:${server.port}`;
  const keep = (body: Buffer): { digest: string; size: number } => {
    const digest = digestOf(body);
    blobs.set(digest, { bytes: body.length, read: (from, end) => Readable.from([body.subarray(from, end)]) });
    return { digest, size: body.length };
  };
  return {
    address,
    fetched,
    answer(path, status, headers, told) {
      const body = Buffer.from(JSON.stringify(told));
      const send = (to: ServerResponse, hasBody: boolean): void =>
        void to.writeHead(status, { ...headers, "content-length": body.length }).end(hasBody ? body : undefined);
      answers.push({ path, send });
    },
    sent: (digest) => endOf(digest).promise,
    meet: (digest, ...next) => void faults.set(digest, [...(faults.get(digest) ?? []), ...next]),
    async add(name, files, config) {
      const layers: { mediaType: string; digest: string; size: number }[] = [];
      for (const file of files) {
        const { size } = await stat(file);
        const hash = createHash("sha256");
        for await (const chunk of createReadStream(file)) hash.update(chunk);
        const digest = `sha256:${hash.digest("hex")}`;
        blobs.set(digest, {
          bytes: size,
          read: (start, end) => (start < end ? createReadStream(file, { start, end: end - 1 }) : Readable.from([])),
        });
        layers.push({ mediaType: "application/vnd.oci.image.layer.v1.tar", digest, size });
      }
      const digests = layers.map(({ digest }) => digest);
      const whole = {
        architecture: arch() === "x64" ? "amd64" : arch(),
        os: "linux",
        config,
        // Plain tar files: what they are fetched and known by is the same.
        rootfs: { type: "layers", diff_ids: digests },
      };
      const about = keep(Buffer.from(JSON.stringify(whole)));
      const manifest = Buffer.from(
        JSON.stringify({
          schemaVersion: 2,
          mediaType: manifestType,
          config: { mediaType: "application/vnd.oci.image.config.v1+json", ...about },
          layers,
        }),
      );
      manifests.set(name.split(":")[1] ?? "latest", manifest);
      manifests.set(digestOf(manifest), manifest);
      return { image: `${address}/${name}`, layers: digests };
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

const manifestType = "application/vnd.oci.image.manifest.v1+json";

function digestOf(body: Buffer): string {
  return `sha256:${createHash("sha256").update(body).digest("hex")}`;
}

/** Resolves once its reader has left. */
async function dripped(blob: Blob, from: number, response: ServerResponse): Promise<void> {
  let at = from;
  while (!response.destroyed && at < blob.bytes) {
    for await (const byte of blob.read(at, at + 1)) response.write(byte);
    at += 1;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
