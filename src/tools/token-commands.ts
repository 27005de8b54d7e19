import type { Command } from "commander";
import { tokenScopes, type TokenScope } from "../api/scopes.ts";
import { CommandError } from "../cli/client.ts";
import type { CommandContext } from "../cli/context.ts";
import { outputOption, withExamples, type Shown } from "../cli/options.ts";
import type { TokenSource } from "../cli/tokens.ts";

interface TokenCommandContext extends CommandContext {
  /** A service was named by `--server` or SVC_URL: its API is used, and no file here. */
  readonly isRemote: () => boolean;
}

/**
 * `berth token`: writes the store itself, since everybody who may write the state directory needs no other proof. Uses
 * the management API where a server is given, or where the store is not writable and SVC_TOKEN is set.
 */
export function addTokenCommands(program: Command, context: TokenCommandContext): void {
  const token = program.command("token").description("tokens for the API");
  const create: Command = token
    .command("create")
    .description("make a token and print it, once")
    .requiredOption("--label <text>", "the person or program that it is for")
    .addOption(
      program
        .createOption("--scope <scope>", "its rights")
        .choices([...tokenScopes])
        .makeOptionMandatory(),
    )
    .addOption(outputOption())
    .action(async ({ label, scope, output }: Shown & { label: string; scope: TokenScope }) => {
      const { newTokenSchema } = await import("../api/token.ts");
      const wanted = newTokenSchema.safeParse({ label, scope });
      if (!wanted.success) create.error(`error: --label: ${problem(wanted.error.issues)}`);
      const { tokenCreate } = await import("../cli/tokens.ts");
      const { text, note } = await withSource(context, (source) => tokenCreate(source, wanted.data, output));
      // Standard output holds the token alone, for scripts; the rest is for the person.
      context.note(note);
      context.write(text);
    });
  withExamples(
    create,
    ["berth token create --label laptop --scope all", "for chats, and for looking at slots"],
    ["SVC_TOKEN=$(berth token create --label me --scope admin)", "standard output gets the token alone"],
  );
  const list = token
    .command("list")
    .description("tokens without their secrets, and when they were last used")
    .option("--confirm [ids...]", "let tokens count that were made while authentication was off: these, or all")
    .addOption(outputOption())
    .action(async ({ output, confirm }: Shown & { confirm?: true | readonly string[] }) => {
      const { tokenConfirm, tokenTable } = await import("../cli/tokens.ts");
      const ids = confirm === true ? undefined : confirm;
      context.write(
        await withSource(context, (source) =>
          confirm === undefined ? tokenTable(source, output) : tokenConfirm(source, ids, output),
        ),
      );
    });
  withExamples(
    list,
    ["berth token list", "the tokens, and when each was last used"],
    [
      "berth token list --confirm k3jd8s2a",
      "this token counts from now on, though authentication was off when it was made",
    ],
  );
  const revoke = token
    .command("revoke")
    .description("refuse a token from its next request on")
    .argument("<id>", "the part between svc_ and the dot")
    .action(async (id: string) => {
      const { tokenRevoke } = await import("../cli/tokens.ts");
      context.write(await withSource(context, (source) => tokenRevoke(source, id)));
    });
  withExamples(revoke, ["berth token revoke k3jd8s2a", "the id is shown by `berth token list`"]);
}

async function withSource<T>(context: TokenCommandContext, act: (source: TokenSource) => Promise<T>): Promise<T> {
  const { remoteTokens } = await import("../cli/tokens.ts");
  if (context.isRemote()) return await overHttp(act, remoteTokens(await context.client()));
  const { readSettings } = await import("../program/settings.ts");
  const { become } = await import("../program/owner.ts");
  const { config } = await readSettings(context.env, { takeOwner: (owner) => become(owner, context.env) });
  const { openStore } = await import("../store/open.ts");
  try {
    const store = openStore(config);
    await using tokens = await store.tokens();
    return await act({
      list: () => tokens.list(),
      // Where a gateway has run open to everybody, a person checks all earlier tokens before authentication accepts them.
      create: async (wanted) => {
        const isConfirmed = config.authEnabled || (await store.lastAuthMode()) !== false;
        return await tokens.create(wanted, { isConfirmed });
      },
      revoke: (id) => tokens.revoke(id),
      confirm: (ids) => tokens.confirm(ids),
    });
  } catch (error) {
    if (!(error instanceof Error && "code" in error) || error instanceof CommandError) throw error;
    if (!isDenied(error))
      throw new CommandError("token.unavailable", error.message, "mend it, or name another place in SVC_STATE_DIR");
    if (context.env["SVC_TOKEN"] !== undefined) return await act(remoteTokens(await context.client()));
    throw new CommandError(
      "auth.forbidden",
      `the token store in ${config.stateDir} may not be used by this user`,
      "run it as the user of the service, or give an admin's token in SVC_TOKEN",
    );
  }
}

async function overHttp<T>(act: (source: TokenSource) => Promise<T>, source: TokenSource): Promise<T> {
  try {
    return await act(source);
  } catch (error) {
    const isHopeless =
      error instanceof CommandError && (error.code === "unreachable" || error.code.startsWith("auth."));
    if (!isHopeless) throw error;
    const local = "on the service's machine, leave out --server and unset SVC_URL to use the token store itself";
    throw new CommandError(error.code, error.message, error.next === undefined ? local : `${error.next}; or, ${local}`);
  }
}

function isDenied(error: Error & { code: unknown }): boolean {
  return ["EACCES", "EPERM", "EROFS"].includes(String(error.code));
}

function problem(issues: readonly { readonly message: string }[]): string {
  return issues.map(({ message }) => message).join("; ");
}
