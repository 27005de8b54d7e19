import { Search } from "lucide";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { base } from "../../shared/api.ts";
import { Icon } from "../../shared/icon.tsx";
import { acting } from "../../shared/toast.tsx";
import { slots } from "../live.ts";
import { commandsOf, found, type Command } from "../palette.ts";
import { go } from "../router.ts";
import { act } from "./slot-actions.tsx";

const acts = {
  load: (slot: string) => void acting(() => act(slot, "load"), `${slot} loads.`),
  unload: (slot: string) => void acting(() => act(slot, "unload"), `${slot} unloads.`),
  restart: (slot: string) => void acting(() => act(slot, "restart"), `${slot} restarts.`),
};

/** Finds pages, slots and what can be done with them, by Ctrl-K from anywhere. */
export function Palette(): JSX.Element | null {
  /** Counts its openings; 0: it is closed. */
  const [opening, setOpening] = useState(0);
  useEffect(() => {
    const open = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      // It would lead away from what a dialog asks or shows.
      if (document.querySelector("dialog[open]") === null) setOpening((last) => last + 1);
    };
    addEventListener("keydown", open);
    return () => removeEventListener("keydown", open);
  }, []);
  // A browser tells the end of a dialog a moment later: it may be open again by then.
  const close = (): void => setOpening((now) => (now === opening ? 0 : now));
  return opening === 0 ? null : <Open key={opening} onClose={close} />;
}

function Open({ onClose }: { readonly onClose: () => void }): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  // Before the next key: what a person types at once is for the field.
  useLayoutEffect(() => box.current?.showModal(), []);
  const shown = found(commandsOf([...slots.value.values()], acts), text);
  const run = (command: Command | undefined): void => {
    if (command === undefined) return;
    box.current?.close();
    if (typeof command.act !== "string") command.act();
    else if (command.act.startsWith("chat/")) location.assign(new URL(command.act, base));
    else void go(`/${command.act.replace(/^\.\//, "")}`);
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt((now) => (now + step + shown.length) % Math.max(1, shown.length));
    }
    if (event.key === "Enter") {
      event.preventDefault();
      run(shown[at]);
    }
  };
  return (
    <dialog ref={box} class="sheet palette" aria-label="Go to" closedby="any" onClose={onClose}>
      <label class="row">
        <Icon of={Search} />
        <input
          role="combobox"
          aria-label="Page, slot or action"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={shown.length === 0 ? undefined : `palette-${at}`}
          placeholder="Page, slot or action"
          autofocus
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={onKey}
        />
      </label>
      <ul id="palette-list" role="listbox" aria-label="Found">
        {shown.map((command, nth) => (
          <li
            key={command.name}
            id={`palette-${nth}`}
            role="option"
            aria-selected={nth === at}
            onPointerMove={() => setAt(nth)}
            onClick={() => run(command)}
          >
            {command.name}
          </li>
        ))}
        {shown.length === 0 && <li class="quiet">Nothing is called so.</li>}
      </ul>
    </dialog>
  );
}
