import assert from "node:assert/strict";
import { chmod, chown, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { compare, hash as bcrypt } from "bcrypt";
import { caddyfile, isPrivateName, type EdgeSettings } from "../../../src/tools/proxy/caddyfile.ts";
import { TokenStore } from "../../../src/store/auth/tokens.ts";
import { runBerth } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { unknownName } from "../../support/unknown-name.ts";

const hash = `$2b$12$${"a".repeat(53)}`;
const settings: EdgeSettings = {
  hostname: "svc.local",
  admin: { user: "ada", bcrypt: hash },
  apiPort: 8080,
  chatPort: 3001,
  tlsEmail: undefined,
  dns: undefined,
  httpPort: 80,
  httpsPort: 443,
  caddyAdmin: undefined,
};

function passed(address: string, ...extra: readonly string[]): string {
  const lines = [...extra, "flush_interval -1", "transport http {", "\tcompression off", "}"];
  return `reverse_proxy ${address} {\n${lines.map((line) => `\t\t\t${line}`).join("\n")}\n\t\t}`;
}

function ownError(status: number, body: string): string {
  return `		@is${status} expression {http.error.status_code} == ${status}
		handle @is${status} {
			header Content-Type "application/json; charset=utf-8"
			respond "${body}" ${status}
		}
`;
}

describe("the Caddyfile", () => {
  it("of a .local name, whole", () => {
    const named = ["header_up X-Forwarded-Email {http.auth.user.id}", "header_up -Authorization"];
    assert.equal(
      caddyfile(settings),
      `# Written by \`berth proxy render\`; a change is lost when it is written again.
{
	# The root certificate is imported by hand where it is wanted; see docs/edge.md.
	skip_install_trust
}
(people) {
	basicauth bcrypt Berth {
		ada ${hash}
	}
}
svc.local {
	# Its own authority: clients import the root certificate once.
	tls internal

	# Only this proxy may say who a user is.
	request_header -X-Forwarded-Email
	header -Server

	# Programs: the API itself checks their tokens.
	@programs path /v1 /v1/* /rerank /models /models/*
	handle @programs {
		${passed("127.0.0.1:8080")}
	}
	# Open to everybody; the API discloses nothing of use to strangers there.
	@open path /api/health/system /api/status /api/metrics /api/features /api/install/state /api/install/complete /api/config/urls /api/auth/status /api/auth/login
	handle @open {
		${passed("127.0.0.1:8080")}
	}
	# A token needs no password beside it.
	@token header_regexp Authorization (?i)^bearer(\\s|$)
	handle @token {
		${passed("127.0.0.1:8080")}
	}

	# People: the password is checked here and not passed on.
	redir /chat /chat/ 308
	handle_path /chat/* {
		import people
		${passed("127.0.0.1:3001", ...named)}
	}
	handle {
		import people
		${passed("127.0.0.1:8080", ...named)}
	}

	handle_errors {
${ownError(401, String.raw`\{\"error\":\{\"code\":\"auth.required\",\"message\":\"Log in, or send a token as Authorization: Bearer\",\"type\":\"authentication_error\"}}`)}${ownError(502, String.raw`\{\"error\":\{\"code\":\"dispatch.upstream_unavailable\",\"message\":\"The service behind the proxy does not answer\",\"type\":\"server_error\"}}`)}	}
}
`,
    );
  });

  it("of a public name asks an authority, by HTTP-01 or by DNS-01", () => {
    const name = { ...settings, hostname: "ai.example.org", tlsEmail: "ada@example.org" };
    const tlsOf = (of: EdgeSettings): string => /^\ttls \{[\s\S]*?^\t\}$/m.exec(caddyfile(of))?.[0] ?? "";
    const issuer = (...lines: readonly string[]): string =>
      `\ttls {\n\t\tissuer acme {\n\t\t\temail ada@example.org\n\t\t\t${lines.join("\n\t\t\t")}\n\t\t}\n\t}`;
    const reachable = "# HTTP-01: port 80 must be reachable from the internet.";
    assert.equal(tlsOf(name), issuer(reachable, "disable_tlsalpn_challenge"));
    const dns = "cloudflare {env.CF_API_TOKEN}";
    assert.equal(tlsOf({ ...name, dns }), issuer(`dns ${dns}`));
    assert.match(caddyfile(name), /^\theader Strict-Transport-Security "max-age=31536000"$/m);
    assert.doesNotMatch(caddyfile(name), /tls internal/);
  });

  it("knows which names no public authority certifies", () => {
    const own = "svc.local SVC.LOCAL berth localhost a.localhost box.lan 10.0.0.2 ::1 x.home.arpa";
    for (const name of own.split(" ")) assert.equal(isPrivateName(name), true, name);
    for (const name of ["ai.example.org", "local.example.org", "svc.local.example"])
      assert.equal(isPrivateName(name), false, name);
  });
});

const password = "correct horse battery";
const first = { SVC_ADMIN_USER: "ada", SVC_ADMIN_PASSWORD: password };

/** A directory of state and configuration, with a quick hash of the administrator's password if one is given. */
async function site(known?: string) {
  const directory = await tempDir();
  const { path } = directory;
  if (known !== undefined) {
    const record = { schema: 1, user: first.SVC_ADMIN_USER, bcrypt: await bcrypt(known, 4) };
    await mkdir(join(path, "auth"), { mode: 0o700 });
    await writeFile(join(path, "auth/admin.json"), JSON.stringify(record), { mode: 0o600 });
  }
  const places = { SVC_STATE_DIR: path, SVC_CONFIG_DIR: path, SVC_AUTH_ENABLED: "1" };
  return {
    path,
    /** `berth proxy render WORDS` where authentication is on. */
    render: async (words = "", env: NodeJS.ProcessEnv = {}) =>
      await runBerth(["proxy", "render", ...words.split(" ").filter((word) => word !== "")], { ...places, ...env }),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

describe("berth proxy render", { concurrency: 2 }, () => {
  it("takes a torn record of the administrator for none, and repeats nothing of it", async () => {
    await using at = await site();
    await mkdir(join(at.path, "auth"));
    await writeFile(join(at.path, "auth/admin.json"), `{"schema":1,"user":"ada","bcrypt":${hash}`);
    const next = "set SVC_ADMIN_USER and SVC_ADMIN_PASSWORD for this once; only a hash is kept";
    const stderr = `config.invalid: there is no administrator yet\n${next}\n`;
    assert.deepEqual(await at.render(), { code: 1, stdout: "", stderr });
  });

  it("leads to engines' own pages where the port is given, and says so where it is not", async () => {
    await using at = await site(password);
    const named = { SVC_ENGINE_PAGES: "primary" };
    const led = await at.render("--engine-pages-port 3443", named);
    assert.deepEqual([led.code, led.stderr], [0, ""]);
    assert.match(led.stdout, /^svc\.local:3443 \{$/m);
    const without = await at.render("", named);
    assert.match(without.stderr, /SVC_ENGINE_PAGES names slots: --engine-pages-port PORT leads to/);
    assert.doesNotMatch(without.stdout, /redir \/upstream/);
  });

  it("keeps a bcrypt hash once, and writes the same text ever after, without the password", async () => {
    await using at = await site();
    const rendered = await at.render("", first);
    assert.deepEqual([rendered.code, rendered.stderr], [0, ""]);
    assert.equal(rendered.stdout.includes(password), false);
    const kept = /ada (\$2b\$12\$\S{53})/.exec(rendered.stdout)?.[1] ?? "";
    assert.equal(await compare(password, kept), true);
    assert.equal((await at.render()).stdout, rendered.stdout);
  });

  it("keeps the hash of the same password, and not of another one; nor does it take another user", async () => {
    await using at = await site(password);
    const { stdout } = await at.render();
    assert.equal((await at.render("", first)).stdout, stdout);
    const eve = await at.render("", { SVC_ADMIN_USER: "eve" });
    assert.match(eve.stderr, /^config\.invalid: SVC_ADMIN_USER is another than before/);
    const other = await at.render("", { ...first, SVC_ADMIN_PASSWORD: "another password" });
    assert.deepEqual([other.code, other.stdout === stdout], [0, false]);
  });

  it("replaces a file only where it differs, and keeps its mode and owner", async () => {
    await using at = await site(password);
    const file = join(at.path, "Caddyfile");
    const said = async (): Promise<string> => (await at.render(`--file ${file}`)).stderr;
    const wrote = `wrote ${file}; now: caddy reload --config ${file}\n`;
    const hint = `only its owner and group may read it: where Caddy runs as caddy, chgrp caddy ${file}\n`;
    assert.equal(await said(), `${wrote}${hint}`);
    assert.equal((await stat(file)).mode & 0o777, 0o640);
    await chmod(file, 0o600);
    assert.equal(await said(), `${file} is as it should be\n`);
    await writeFile(file, "a person's");
    // Root may give it to Caddy's user; others have nobody else to give it to.
    const owner = process.getuid?.() === 0 ? 65_534 : (process.getuid?.() ?? 0);
    await chown(file, owner, owner === 65_534 ? owner : (process.getgid?.() ?? 0));
    assert.equal(await said(), wrote);
    const { mode, uid } = await stat(file);
    assert.deepEqual([mode & 0o777, uid], [0o600, owner]);
    assert.match(await readFile(file, "utf8"), /^svc\.local \{$/m);
  });

  for (const [words, env, problem] of [
    ["", { SVC_HOSTNAME: "ai.example.org" }, /SVC_TLS_EMAIL must be an address that is read/],
    ["", { SVC_HOSTNAME: "ai.example.org", SVC_TLS_EMAIL: "nobody" }, /SVC_TLS_EMAIL must be an address/],
    ["", { SVC_HOSTNAME: "ai.example.org", SVC_TLS_EMAIL: "a@b.org\n}" }, /SVC_TLS_EMAIL must be an address/],
    ["", { SVC_HOSTNAME: "svc.local {\n}" }, /SVC_HOSTNAME must be a host name/],
    ["--dns cloudflare", {}, /svc\.local is no public name: --dns has no use/],
    ["--dns x\n}", { SVC_HOSTNAME: "a.example.org", SVC_TLS_EMAIL: "a@b.org" }, /--dns must be a Caddy DNS provider/],
    ["--engine-pages-port 3443", {}, /SVC_ENGINE_PAGES names no slot/],
    ["", { SVC_ADMIN_PASSWORD: "short" }, /SVC_ADMIN_PASSWORD must have at least 8 characters/],
    ["", { SVC_ADMIN_PASSWORD: "é".repeat(37) }, /SVC_ADMIN_PASSWORD must have at most 72 bytes/],
    ["", { SVC_ADMIN_USER: "ada lovelace" }, /SVC_ADMIN_USER must be 1 to 64 letters/],
    ["", { SVC_ADMIN_USER: "" }, /SVC_ADMIN_USER is not set/],
  ] as const)
    it(`refuses ${JSON.stringify([words, env])}`, async () => {
      await using at = await site();
      const given: NodeJS.ProcessEnv = { ...first, ...env };
      const { code, stdout, stderr } = await at.render(words, given);
      assert.deepEqual([code, stdout], [1, ""]);
      assert.match(stderr, /^config\.invalid: /);
      assert.match(stderr, problem);
      assert.equal(stderr.includes(given["SVC_ADMIN_PASSWORD"] ?? ""), false);
    });

  for (const [words, problem] of [
    [["--engine-pages-port", "443"], /--engine-pages-port is the port of another site/],
    [["--caddy-admin", "x y"], /--caddy-admin/],
  ] as const)
    it(`is used wrongly: ${words.join(" ")}`, async () => {
      const { code, stderr } = await runBerth(["proxy", "render", ...words], { SVC_ENGINE_PAGES: "a" });
      assert.equal(code, 2);
      assert.match(stderr, problem);
    });

  it("warns of authentication that is off, and of a password in berth.toml", async () => {
    await using at = await site();
    await writeFile(join(at.path, "berth.toml"), `admin_user = "ada"\nadmin_password = "${password}"\n`);
    assert.equal(
      (await at.render("", { SVC_AUTH_ENABLED: "0" })).stderr,
      "the hash of the password is kept now: remove admin_password from berth.toml\n" +
        "authentication is off here: set SVC_AUTH_ENABLED=1 and restart the service\n",
    );
  });
});

it("a round trip to a name that this machine does not know is one failure, not eleven", async () => {
  await using dir = await tempDir();
  const env = { SVC_STATE_DIR: dir.path, SVC_CONFIG_DIR: dir.path, SVC_HOSTNAME: unknownName };
  assert.deepEqual(await runBerth(["proxy", "check", "--caddy-admin", "127.0.0.1:1"], env), {
    code: 1,
    stdout: "",
    stderr:
      `unreachable: this machine knows no address of ${unknownName}\n` +
      "on the proxy's machine: --address 127.0.0.1:443; for clients a record in DNS, mDNS, or a line in /etc/hosts\n",
  });
  assert.deepEqual(await new TokenStore(dir.path).list(), [], "no token is left behind");
});
