import { publicPaths } from "../../api/scopes.ts";
import { askEdge, certificateOf, firstBytes, type EdgeTarget } from "./edge-client.ts";
import { parseJson } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import { errorMessage } from "../../lib/error-code.ts";

export interface Finding {
  readonly outcome: "ok" | "failed" | "skipped";
  readonly what: string;
  readonly detail: string;
}

export interface CheckOptions {
  readonly target: EdgeTarget;
  /** Plain HTTP under the same name. */
  readonly plain: EdgeTarget;
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** A read-only token with its label; absent where none could be created. */
  readonly token: { readonly text: string; readonly label: string } | undefined;
  /** Revokes the token; absent for a person's own token. */
  readonly revoke: (() => Promise<void>) | undefined;
}

const spoofed = { "x-forwarded-email": "somebody-else" };

/** Requests through the proxy in front of this service, as strangers, people and programs send them. */
export async function* checkProxy(options: CheckOptions): AsyncGenerator<Finding> {
  const { target, plain, token, user, password } = options;
  const trusted = await attempt("certificate", async () => {
    const { issuer, validTo } = await certificateOf(target);
    return `by ${issuer}, valid to ${validTo}`;
  });
  yield trusted;
  // The further checks say more than that the certificate is unknown here.
  const edge: EdgeTarget = trusted.outcome === "ok" ? target : { ...target, isVerifying: false };

  yield await attempt("port 80 redirects", async () => {
    const { status, headers } = await askEdge(plain, "/some/path?x=1");
    const wanted = `https://${target.url.hostname}`;
    must(status >= 300 && status < 400, `it answered ${status}`);
    must(headers.location?.startsWith(wanted) === true, `it leads to ${headers.location ?? "nowhere"}`);
    return `to ${headers.location ?? ""}`;
  });
  yield await attempt("people are asked for a password", async () => {
    const { status, headers } = await askEdge(edge, "/", spoofed);
    must(status === 401, `/ answered ${status}`);
    must(/^basic /i.test(headers["www-authenticate"] ?? ""), "the answer asks for no basic auth");
    return "401 with a basic challenge";
  });
  yield await attempt("public routes are open", async () => {
    for (const path of publicPaths) {
      const { status } = await askEdge(edge, path);
      must(status !== 401 && status !== 403, `${path} answered ${status}`);
    }
    return `${publicPaths.length} of them`;
  });
  yield await attempt("/v1 requires a token, not a password", async () => {
    const { status, headers, code } = await askEdge(edge, "/v1/models/none");
    must(status === 401 && code === "auth.required", `it answered ${status} ${code}`);
    must(!/^basic /i.test(headers["www-authenticate"] ?? ""), "the proxy asks for a password");
    return "401 auth.required";
  });
  yield await attempt("a user that the client names is nobody", async () => {
    for (const path of ["/v1/models/none", "/api/slots", "/api/auth/me"]) {
      const { status } = await askEdge(edge, path, spoofed);
      must(status === 401, `${path} answered ${status} to a forged X-Forwarded-Email`);
    }
    return "X-Forwarded-Email is removed";
  });
  yield await attempt("a wrong token is refused, whoever else is named", async () => {
    const headers = { authorization: `Bearer svc_nobody22.${"A".repeat(43)}`, ...spoofed };
    const { code } = await askEdge(edge, "/api/auth/me", headers);
    must(code === "auth.invalid" || code === "auth.throttled", `it answered ${code || "no error of Berth's"}`);
    return code;
  });
  if (user === undefined || password === undefined) {
    yield skipped("people log in with the password", "it is not known here: set SVC_ADMIN_PASSWORD for this once");
  } else {
    yield await attempt("people log in with the password, as themselves", async () => {
      const basic = Buffer.from(`${user}:${password}`).toString("base64");
      const { status, body } = await askEdge(edge, "/api/auth/me", { authorization: `Basic ${basic}`, ...spoofed });
      must(status === 200, `it answered ${status}`);
      must(identityOf(body) === `${user} proxy`, `the API sees ${identityOf(body)}`);
      return `as ${user}`;
    });
  }
  if (token === undefined) {
    yield skipped("a token is let in", "no token could be made here, and SVC_TOKEN is not set");
    return;
  }
  const bearer = { authorization: `Bearer ${token.text}` };
  yield await attempt("a token is let in, and wins over a named user", async () => {
    const { status, body } = await askEdge(edge, "/api/auth/me", { ...bearer, ...spoofed });
    must(status === 200, `it answered ${status}`);
    must(identityOf(body).endsWith(" token"), `the API sees ${identityOf(body)}`);
    return `as ${token.label}`;
  });
  yield await attempt("streams are not held back", async () => {
    const { status, bytes } = await firstBytes(edge, "/api/events", bearer);
    must(status === 200, `it answered ${status}`);
    must(bytes !== "", "the stream ended without an event");
    return "the first event arrived at once";
  });
  const { revoke } = options;
  if (revoke === undefined) return;
  yield await attempt("a revoked token is refused at its next request", async () => {
    await revoke();
    const { code } = await askEdge(edge, "/api/auth/me", bearer);
    must(code === "auth.invalid" || code === "auth.throttled", `it answered ${code || "as if it were valid"}`);
    return code;
  });
}

async function attempt(what: string, act: () => Promise<string>): Promise<Finding> {
  try {
    return { outcome: "ok", what, detail: await act() };
  } catch (error) {
    return { outcome: "failed", what, detail: errorMessage(error) };
  }
}

function skipped(what: string, detail: string): Finding {
  return { outcome: "skipped", what, detail };
}

function must(isSo: boolean, message: string): void {
  if (!isSo) throw new Error(message);
}

function identityOf(body: string): string {
  const parsed = parseJson(body);
  if (!isRecord(parsed) || !("identity" in parsed) || !("source" in parsed)) return "nobody";
  return `${String(parsed["identity"])} ${String(parsed["source"])}`;
}
