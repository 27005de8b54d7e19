import type { Command } from "commander";
import type { CommandContext } from "./context.ts";
import { outputOption, watchOption, whole, withExamples, type Shown } from "./options.ts";
import { addMeasureCommands } from "./measure-commands.ts";
import { addGroupCommands } from "./group-commands.ts";
import { addModelCommands } from "./model-commands.ts";
import { addPullCommands } from "./pull-commands.ts";
import { addSlotCommands } from "./slot-commands.ts";
import { addUpstreamCommands } from "./upstream-commands.ts";
import { show } from "./watch.ts";

/** The commands that need only the service's API. Their code is loaded when they run. */
export function addApiCommands(program: Command, context: CommandContext): void {
  const status = program
    .command("status")
    .description("the service and its slots at a glance")
    .addOption(outputOption())
    .option(...watchOption)
    .action(async ({ output, watch }: Shown) => {
      const { statusText } = await import("./status.ts");
      await show(context, (client) => statusText(client, output), watch === true);
    });
  withExamples(
    status,
    ["berth status", "whether it runs, and the loaded slots"],
    ["berth status --watch", "again with every change"],
    ["berth --server https://box.local status", "of another machine"],
  );
  const chat = program
    .command("chat")
    .description(
      "send a message and print the answer as it comes; Ctrl-C stops it; without a message, on a terminal, talk",
    )
    .argument("<slot>", "slot or model")
    .argument("[message]", "what to say; absent: what is piped in, or a conversation on a terminal")
    .option("--max-tokens <count>", "longest answer, in tokens; absent: it is stopped after about 4096", whole)
    .action(async (slot: string, message: string | undefined, { maxTokens }: { maxTokens?: number }) => {
      const client = await context.client();
      if (message === undefined && context.input().isTTY === true) {
        const { converse } = await import("./conversation.ts");
        const { input, output, screen } = context;
        await converse({ client, model: slot, maxTokens, input: input(), output, screen });
        return;
      }
      if (message?.trim() === "") chat.error("error: argument 'message' is empty");
      const { chat: pieces, cutMessage, pipedIn } = await import("./chat.ts");
      const { StatusLine } = await import("./terminal.ts");
      using line = new StatusLine(context.screen);
      const content =
        message ?? (await pipedIn(context.input(), "pipe a message in, or name it: berth chat SLOT MESSAGE"));
      const request = { model: slot, messages: [{ role: "user", content }], maxTokens } as const;
      let isCut = false;
      if (context.screen.isTTY === true) line.show(`${slot}: waiting; Ctrl-C stops it`);
      const onWaiting = (text: string): void => line.show(text, "; Ctrl-C stops it");
      for await (const piece of pieces(client, request, { onWaiting, onCut: () => (isCut = true) })) {
        line[Symbol.dispose]();
        context.write(piece);
      }
      context.write("\n");
      if (isCut) context.note(`${cutMessage}\n`);
    });
  withExamples(
    chat,
    ['berth chat primary "hello"', "what the slot primary answers"],
    ["git diff | berth chat coder", "what is piped in"],
    ["berth chat primary", "a conversation, until Ctrl-D"],
    ['berth chat primary "Tell me a story" --max-tokens 40', "only the beginning of the answer"],
  );
  const login = program
    .command("login")
    .description("keep a token for this user and server, in a file that no other user may read")
    .option("--forget", "remove it from there")
    .action(async ({ forget }: { forget?: true }) => {
      const { login: enter, logout, readSecret } = await import("./login.ts");
      const { env, note, input, screen } = context;
      const client = await context.client();
      const readToken = (): Promise<string> => readSecret("Token: ", input(), screen);
      context.write(forget === true ? await logout(client, env) : await enter({ client, env, note, readToken }));
    });
  withExamples(
    login,
    ["berth --server https://box.local login", "asks for the token, and tries it"],
    ["berth token create --label me --scope all | berth login", "on the machine of the service"],
    ["berth login --forget", "and nothing is kept any more"],
  );
  addSlotCommands(program, context);
  addMeasureCommands(program, context);
  addModelCommands(program, context);
  addPullCommands(program, context);
  addUpstreamCommands(program, context);
  addGroupCommands(program, context);
}
