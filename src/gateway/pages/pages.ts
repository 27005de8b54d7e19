import { createReadStream } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../../api/errors.ts";

/** Scripts and styles of the page's own server alone: nothing of a model's or a person's text can act. */
const pagePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self' blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const types: Readonly<Record<string, string>> = {
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  woff2: "font/woff2",
};
/** A file's name has the hash of its content. */
const forEver = "public, max-age=31536000, immutable";
const isPublic = { config: { scope: "public" as const } };

/**
 * The dashboard at `/` and below `/ui`, the chat page at `/chat/`. The pages themselves show nothing: what they show comes
 * from the management API, which asks who the caller is.
 */
export function servePages(app: FastifyInstance, directory: string, basePath: string): ServedPages {
  const dashboard = new Page(join(directory, "dashboard"));
  const chat = new Page(join(directory, "chat"));
  const sendDashboard = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const [path = ""] = request.url.split("?", 1);
    // No page has a dot in the last part of its address: a file is meant, and the page in its place would be taken for it.
    if (/\.[^/]*$/.test(path)) throw nothingAt(request.url);
    return await dashboard.send(reply, baseOf(path));
  };
  for (const url of ["/", "/ui", "/ui/*"]) app.get(url, isPublic, sendDashboard);
  app.get("/chat", isPublic, async (request, reply) => {
    const [path = ""] = request.url.split("?", 1);
    // The page's own addresses are relative to its directory.
    return path.endsWith("/") ? await chat.send(reply) : await reply.redirect("chat/", 308);
  });
  if (basePath !== "")
    app.get(basePath, isPublic, async (_request, reply) => await reply.redirect(`${basePath}/`, 308));
  for (const [url, page] of [
    ["/ui/assets/:file", dashboard],
    ["/chat/assets/:file", chat],
  ] as const)
    app.get<{ Params: { file: string } }>(url, isPublic, (request, reply) => page.sendAsset(request, reply));
  return {
    sendUnread: async ({ id, method, url }, reply) => {
      if (!["GET", "HEAD"].includes(method) || !/^\/ui\/(?!assets\/)/.test(url)) return false;
      const [path = ""] = url.split("?", 1);
      const refused = reply.code(400).header("x-request-id", id).header("x-content-type-options", "nosniff");
      await dashboard.send(refused, baseOf(path));
      return true;
    },
  };
}

export interface ServedPages {
  /**
   * Answers a request whose address has a broken escape, so that no route is found for it, with the dashboard, which says
   * so in its words. False: the address is not below `/ui`. Throws ApiError where the pages are not built.
   */
  sendUnread(request: FastifyRequest, reply: FastifyReply): Promise<boolean>;
}

/** The way from a page of the dashboard to the address of Berth: a proxy may have both below a path that is not known here. */
function baseOf(path: string): string {
  return "../".repeat(path.split("/").length - 2) || "./";
}

function nothingAt(url: string): ApiError {
  return new ApiError("system.not_found", { message: `there is nothing at ${url.slice(0, 200)}` });
}

/** A page with the files that belong to it, as the build has written them. */
class Page {
  readonly #directory: string;
  #files: Promise<ReadonlySet<string>> | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** `base`: what the relative addresses of the page are relative to; absent: as the page has it. */
  async send(reply: FastifyReply, base = "./"): Promise<FastifyReply> {
    let html: string;
    try {
      html = await readFile(join(this.#directory, "index.html"), "utf8");
    } catch (error) {
      const message = "the pages are not built here; `make setup` builds them";
      throw new ApiError("system.not_found", { message, cause: error });
    }
    return await reply
      .type("text/html; charset=utf-8")
      .header("content-security-policy", pagePolicy)
      // The names of its files change with each version.
      .header("cache-control", "no-cache")
      .send(html.replace('<base href="./" />', `<base href="${base}" />`));
  }

  async sendAsset(request: FastifyRequest<{ Params: { file: string } }>, reply: FastifyReply): Promise<FastifyReply> {
    const { file } = request.params;
    const type = types[file.slice(file.lastIndexOf(".") + 1)];
    // Only what the build has written: no name can lead elsewhere.
    const known = await this.#known();
    if (type === undefined || !known.has(file)) throw nothingAt(request.url);
    const isPacked = known.has(`${file}.gz`) && isAccepted("gzip", request.headers["accept-encoding"]);
    void reply.type(type).header("cache-control", forEver).header("vary", "accept-encoding");
    if (isPacked) void reply.header("content-encoding", "gzip");
    return await reply.send(createReadStream(join(this.#directory, "assets", isPacked ? `${file}.gz` : file)));
  }

  async #known(): Promise<ReadonlySet<string>> {
    this.#files ??= readdir(join(this.#directory, "assets")).then((names) => new Set(names));
    try {
      return await this.#files;
    } catch {
      this.#files = undefined;
      return new Set();
    }
  }
}

/**
 * Whether a client takes a content coding, by its `accept-encoding` (RFC 9110, section 12.5.3): named with a weight above
 * zero, or covered by `*` and not named. Without the header: false, because plain bytes suit every client.
 */
function isAccepted(coding: string, header: string | undefined): boolean {
  let byStar = false;
  for (const part of (header ?? "").toLowerCase().split(",")) {
    const [name = "", ...parameters] = part.split(";").map((each) => each.trim());
    const weight = parameters.find((each) => each.startsWith("q="))?.slice(2);
    const isWanted = weight === undefined || Number(weight) > 0;
    if (name === coding) return isWanted;
    if (name === "*") byStar = isWanted;
  }
  return byStar;
}
