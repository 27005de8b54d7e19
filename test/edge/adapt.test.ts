import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { promisify } from "node:util";
import { caddyfile, type EdgeSettings } from "../../src/tools/proxy/caddyfile.ts";
import { tempDir } from "../support/temp-dir.ts";

const settings: EdgeSettings = {
  hostname: "ai.example.org",
  admin: { user: "ada", bcrypt: `$2b$12$${"a".repeat(53)}` },
  apiPort: 8080,
  chatPort: 3001,
  tlsEmail: "ada@example.org",
  dns: undefined,
  httpPort: 80,
  httpsPort: 443,
  caddyAdmin: undefined,
};

async function caddy(text: string, ...args: readonly string[]): Promise<string> {
  await using directory = await tempDir();
  const file = join(directory.path, "Caddyfile");
  await writeFile(file, text);
  const { stdout } = await promisify(execFile)("caddy", [...args, file], {
    env: { ...process.env, HOME: directory.path },
  });
  return stdout;
}

it("Caddy reads a public name as ACME by HTTP-01 with our contact, and redirects port 80", async () => {
  const adapted = await caddy(caddyfile(settings), "adapt", "--adapter", "caddyfile", "--config");
  const { apps }: { apps: Record<string, { automation?: unknown; servers?: object }> } = JSON.parse(adapted);
  assert.deepEqual(apps["tls"]?.automation, {
    policies: [
      {
        subjects: ["ai.example.org"],
        issuers: [{ challenges: { "tls-alpn": { disabled: true } }, email: "ada@example.org", module: "acme" }],
      },
    ],
  });
  // No server of ours on port 80: Caddy's own redirect and its answer to the challenge stand there.
  assert.equal(adapted.includes("disable_redirects"), false);
  assert.equal(adapted.includes("renewal_window_ratio"), false, "Caddy's own third of the lifetime: 30 days of 90");
});

it("Caddy finds the file as it would have written it", async () => {
  for (const hostname of ["svc.local", "ai.example.org"]) {
    const enginePages = { port: 3002, httpsPort: 3443 };
    const text = caddyfile({ ...settings, hostname, httpPort: 8081, caddyAdmin: "127.0.0.1:2020", enginePages });
    assert.equal((await caddy(text, "fmt")).trim(), text.trim());
  }
});
