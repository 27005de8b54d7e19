import { isIP } from "node:net";
import { hostname as machineName } from "node:os";
import { ApiError } from "../api/errors.ts";

/**
 * Whether `/api` may be called under that Host (DECISIONS 1): a page of another site that rebinds its name to our
 * address must learn and change nothing.
 */
export class HostGuard {
  readonly #allowed: ReadonlySet<string>;

  constructor(names: readonly string[]) {
    const machine = machineName().toLowerCase();
    this.#allowed = new Set(["localhost", machine, `${machine}.local`, ...names.map((name) => name.toLowerCase())]);
  }

  /** Throws ApiError `auth.forbidden`. */
  check(
    headers: {
      host?: string | undefined;
      origin?: string | undefined;
      "sec-fetch-site"?: string | string[] | undefined;
    },
    isMutation: boolean,
  ): void {
    const host = nameOf(headers.host ?? "");
    if (isIP(host) === 0 && !this.#allowed.has(host)) {
      throw new ApiError("auth.forbidden", {
        message: `this service is not called ${host.slice(0, 100)}; see SVC_ALLOWED_HOSTS`,
      });
    }
    if (!isMutation) return;
    const isForeignOrigin = headers.origin !== undefined && nameOf(headers.origin.replace(/^https?:\/\//, "")) !== host;
    const site = headers["sec-fetch-site"];
    if (isForeignOrigin || site === "cross-site" || site === "same-site") {
      throw new ApiError("auth.forbidden", { message: "another site may not change anything here" });
    }
  }
}

/** A host without its port; brackets of an IPv6 address removed. */
function nameOf(host: string): string {
  const bracketed = /^\[([^\]]*)\]/.exec(host)?.[1];
  return (bracketed ?? host.replace(/:\d*$/, "")).toLowerCase();
}
