import { Option, type Command } from "commander";
import { CommandError } from "./client.ts";
import type { CommandContext } from "./context.ts";
import { whole, withExamples } from "./options.ts";
import type { NewSlotOptions } from "./slot-create.ts";
import type { SlotRequest } from "./slot-requests.ts";

interface Wait {
  readonly wait?: true;
  readonly timeout: number;
}

/** The commands that change a slot. */
export function addSlotChangeCommands(slot: Command, context: CommandContext): void {
  const send = async (wanted: SlotRequest, { wait, timeout }: Wait): Promise<void> => {
    const { request } = await import("./slot-requests.ts");
    const waiting = { timeoutSeconds: wait === true ? timeout : undefined, screen: context.screen };
    context.write(await request(await context.client(), wanted, waiting));
  };
  const waitable = (command: Command): Command =>
    command
      .option("--wait", "go on until it is done, and say what is waited for")
      .option("--timeout <seconds>", "with --wait: how long at most", whole, 180);

  for (const [verb, meaning, about] of [
    ["load", "load a slot's model", "a slot that is on demand, or was unloaded"],
    ["unload", "stop a slot's engine, and leave it so until it is asked for again", "free its memory"],
    ["restart", "stop a slot's engine and start it again", "with what its model file holds now"],
  ] as const) {
    const command = slot
      .command(verb)
      .description(meaning)
      .argument("<slot>", "name of the slot")
      .action(async (name: string, wait: Wait) => {
        await send(
          {
            slot: name,
            send: (client, query) => client.one(`POST /api/slots/{name}/${verb}`, "state", { params: { name }, query }),
            said: `${verb} requested`,
            wanted: { isLoaded: verb === "load" },
          },
          wait,
        );
      });
    withExamples(waitable(command), [`berth slot ${verb} primary --wait`, about]);
  }

  const swap = slot
    .command("swap")
    .description("have a slot hold another model")
    .argument("<slot>", "name of the slot")
    .argument("[ref]", "the model")
    .addOption(new Option("--reset", "back to the model that the manifest names").conflicts("write"))
    .option("--write", "write it into the manifest, too")
    .action(async (name: string, ref: string | undefined, options: Wait & { reset?: true; write?: true }) => {
      if ((ref === undefined) !== (options.reset === true)) swap.error("error: name a model, or give --reset");
      const body =
        ref === undefined ? { reset: true } : { model: ref, ...(options.write === true ? { write: true } : {}) };
      const said =
        ref === undefined
          ? "swap back requested"
          : options.write === true
            ? `its manifest now names ${ref}`
            : `swap to ${ref} requested`;
      await send(
        {
          slot: name,
          send: (client, query) =>
            client.one("POST /api/slots/{name}/swap", "state", { params: { name }, query, body }),
          said,
          wanted: ref === undefined ? {} : { model: ref },
        },
        options,
      );
    });
  withExamples(
    waitable(swap),
    ["berth slot swap primary qwen3-8b --wait", "until the manifest's model changes"],
    ["berth slot swap primary qwen3-8b --write", "for good: changes one line of the manifest"],
    ["berth slot swap primary --reset", "back to the manifest's model"],
  );

  const create: Command = slot
    .command("create")
    .description("declare a slot: from options, or from a manifest")
    .argument("[name]", "its name; a manifest may name itself")
    .option("-f, --file <path>", "YAML or JSON manifest or bare spec, - for standard input")
    .option("--model <ref>", "what it holds")
    .option("--engine <engine>", "llama, npu, stt, tts, image or custom")
    .option("--load <when>", "always or onDemand")
    .option("--alias <name...>", "more names that clients may use")
    .option("--context-size <tokens>", "context in tokens", whole)
    .action(async (name: string | undefined, options: Wait & NewSlotOptions) => {
      const { newSlot } = await import("./slot-create.ts");
      const { slot: created, body } = await newSlot(name, options, context.input);
      if (created === undefined) create.error("error: the slot has no name: berth slot create NAME …");
      await send(
        {
          slot: created,
          send: (client, query) => client.one("POST /api/slots", "state", { query, body }),
          said: "created",
          isNew: true,
        },
        options,
      );
    });
  withExamples(
    waitable(create),
    ["berth slot create coder --model qwen3-4b --load onDemand", "loaded by its first request"],
    ["berth slot create -f coder.yaml --wait", "from a manifest, and wait until it is ready"],
  );

  const remove = slot
    .command("delete")
    .description("delete a slot and its manifest")
    .argument("<slot>", "name of the slot")
    .option("-y, --yes", "do not ask")
    .action(async (name: string, { yes }: { yes?: true }) => {
      if (yes !== true) {
        const { confirm } = await import("./terminal.ts");
        if (context.input().isTTY !== true) remove.error("error: --yes is needed where nobody can be asked");
        if (!(await confirm(`Delete slot ${name} and its manifest?`, context.input(), context.screen)))
          throw new CommandError("cancelled", `slot ${name} stays`, undefined);
      }
      await send(
        {
          slot: name,
          send: (client) => client.one("DELETE /api/slots/{name}", "state", { params: { name } }),
          said: "deleted",
        },
        { timeout: 0 },
      );
    });
  withExamples(remove, ["berth slot delete coder", "asks first"], ["berth slot delete coder --yes", "in a script"]);
}
