import { Ellipsis, type IconNode } from "lucide";
import type { JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icon.tsx";

export interface MenuItem {
  readonly name: string;
  /** A link, or what a click does. */
  readonly act: string | (() => void);
  readonly isDanger?: boolean;
}

interface MenuProps {
  readonly label: string;
  readonly items: readonly MenuItem[];
  /** Instead of three dots. */
  readonly icon?: IconNode;
  /** Stands on the button instead of an icon. */
  readonly word?: string;
}

/** The actions that have no button of their own, behind a button. */
export function Menu({ label, items, icon = Ellipsis, word }: MenuProps): JSX.Element {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  // A table of a hundred slots has a hundred menus: each is filled while it is open.
  const [isOpen, setOpen] = useState(false);
  useLayoutEffect(() => {
    const [from, menu] = [button.current?.getBoundingClientRect(), list.current];
    if (!isOpen || from === undefined || menu === null) return;
    menu.style.maxHeight = "";
    const { width, height } = menu.getBoundingClientRect();
    const [above, below] = [from.top - 12, innerHeight - from.bottom - 12];
    const isBelow = height <= below || below >= above;
    // A longer menu scrolls within the room at its side of the button.
    const shown = Math.min(height, isBelow ? below : above);
    menu.style.maxHeight = `${shown}px`;
    menu.style.left = `${Math.max(8, Math.min(from.right - width, innerWidth - width - 8))}px`;
    menu.style.top = `${isBelow ? from.bottom + 4 : from.top - shown - 4}px`;
    menu.querySelector<HTMLElement>("[role=menuitem]")?.focus();
  }, [isOpen]);
  const move = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined || list.current === null) return;
    event.preventDefault();
    const all = [...list.current.querySelectorAll<HTMLElement>("[role=menuitem]")];
    const at = all.findIndex((each) => each === document.activeElement);
    all.at((at + step) % all.length)?.focus();
  };
  const close = (): void => list.current?.hidePopover();
  return (
    <>
      <button
        ref={button}
        type="button"
        class={word === undefined ? "ghost icon" : undefined}
        aria-label={label}
        aria-haspopup="menu"
        popovertarget={id}
      >
        {word ?? <Icon of={icon} />}
      </button>
      <div
        ref={list}
        id={id}
        class="menu"
        popover="auto"
        role="menu"
        aria-label={label}
        onToggle={({ newState }) => setOpen(newState === "open")}
        onKeyDown={move}
      >
        {(isOpen ? items : []).map(({ name, act, isDanger }) =>
          typeof act === "string" ? (
            <a key={name} role="menuitem" href={act} onClick={close}>
              {name}
            </a>
          ) : (
            <button
              key={name}
              type="button"
              role="menuitem"
              class={isDanger === true ? "ghost danger" : "ghost"}
              onClick={() => {
                close();
                act();
              }}
            >
              {name}
            </button>
          ),
        )}
      </div>
    </>
  );
}
