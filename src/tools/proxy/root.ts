import { CommandError } from "../../cli/client.ts";
import { parseJson } from "../../lib/json.ts";
import { get } from "../../lib/node-http.ts";
import { isRecord } from "../../lib/record.ts";

/**
 * The root certificate of Caddy's own authority, as PEM, from its administration on this machine (`GET /pki/ca/local`,
 * https://caddyserver.com/docs/api). Undefined where it does not run.
 */
export async function caddyRoot(admin: string): Promise<string | undefined> {
  const text = await new Promise<string | undefined>((resolve) => {
    const request = get(`http://${admin}/pki/ca/local`, { timeout: 2000, headers: { host: admin } }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
      response.once("end", () => resolve(response.statusCode === 200 ? body : undefined));
      response.once("error", () => resolve(undefined));
    });
    request.once("error", () => resolve(undefined));
    request.once("timeout", () => request.destroy());
  });
  if (text === undefined) return undefined;
  const parsed = parseJson(text);
  if (parsed === undefined)
    throw new CommandError(
      "server.invalid",
      `the program at ${admin} is no Caddy`,
      "name the place with --caddy-admin",
    );
  const root = isRecord(parsed) ? parsed["root_certificate"] : undefined;
  return typeof root === "string" ? root : undefined;
}
