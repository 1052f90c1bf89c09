'use strict';
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId('data').textContent);
  const columns = data.columns, width = columns.length, PAGE = 200;
  const filtered = ['task', 'benchmark', 'model', 'agent', 'budget', 'arm', 'outcome', 'gate', 'stopped by'];
  const chosen = {};
  let sorted = { column: -1, down: false }, page = 0, shown = data.rows, open = -1;

  const make = (tag, text, attributes) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    return node;
  };
  const words = (value) => value === null ? 'unknown' : typeof value !== 'number' ? String(value)
    : Number.isInteger(value) ? value.toLocaleString('en-US') : value.toPrecision(4);

  const filters = () => {
    for (const name of filtered) {
      const at = columns.indexOf(name);
      if (at < 0) continue;
      const label = make('label', name);
      let input;
      if (name === 'task') {
        input = make('input', undefined, { type: 'search', placeholder: 'part of an id' });
      } else {
        input = make('select');
        input.append(make('option', 'all', { value: '' }));
        const values = [...new Set(data.rows.map((row) => row[at]))];
        for (const value of values) input.append(make('option', value, { value }));
        if (values.length < 2) continue;
      }
      input.addEventListener('input', () => { chosen[at] = [name, input.value]; page = 0; select(); });
      label.append(input);
      byId('filters').append(label);
    }
    byId('filters').addEventListener('submit', (event) => event.preventDefault());
  };

  const kept = (row) => Object.entries(chosen).every(([at, [name, value]]) => !value
    || (name === 'task' ? row[at].toLowerCase().includes(value.toLowerCase()) : row[at] === value));
  const compare = (a, b) => {
    const x = a[sorted.column], y = b[sorted.column];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === 'number' ? x - y : x.localeCompare(y, 'en', { numeric: true });
    return sorted.down ? -order : order;
  };
  const select = () => {
    shown = data.rows.filter(kept);
    if (sorted.column >= 0) shown.sort(compare);
    draw();
  };

  const head = () => {
    const row = make('tr');
    columns.forEach((name, at) => {
      const cell = make('th', undefined, { scope: 'col' });
      const active = sorted.column === at;
      cell.setAttribute('aria-sort', active ? (sorted.down ? 'descending' : 'ascending') : 'none');
      const button = make('button', name + (active ? (sorted.down ? ' ▼' : ' ▲') : ''), { type: 'button' });
      button.addEventListener('click', () => {
        sorted = { column: at, down: active && !sorted.down };
        page = 0;
        select();
        byId('table').querySelectorAll('th button')[at].focus();
      });
      cell.append(button);
      row.append(cell);
    });
    const top = make('thead');
    top.append(row);
    return top;
  };
  const line = (row, place) => {
    const out = make('tr');
    for (let at = 0; at < width; at++) {
      const cell = make('td');
      if (at === 0) {
        const button = make('button', words(row[0]), { type: 'button' });
        button.addEventListener('click', () => look(place));
        cell.append(button);
      } else cell.textContent = words(row[at]);
      if (typeof row[at] === 'number') cell.className = 'number';
      if (columns[at] === 'outcome') cell.className = row[at] === 'shipped bad' ? 'bad' : row[at] === 'shipped good' ? 'good' : '';
      out.append(cell);
    }
    return out;
  };
  const draw = () => {
    const table = byId('table'), body = make('tbody'), first = page * PAGE;
    shown.slice(first, first + PAGE).forEach((row, at) => body.append(line(row, first + at)));
    table.replaceChildren(head(), body);
    const last = Math.min(first + PAGE, shown.length);
    byId('count').textContent = shown.length ? `${first + 1} to ${last} of ${shown.length} cells` + (shown.length < data.rows.length ? ` (${data.rows.length} in all)` : '') : 'No cell matches.';
    const pages = byId('pages');
    pages.replaceChildren();
    for (const [text, to, there] of [['Previous page', page - 1, page > 0], ['Next page', page + 1, last < shown.length]]) {
      if (!there) continue;
      const button = make('button', text, { type: 'button' });
      button.addEventListener('click', () => { page = to; draw(); byId('cells').focus(); });
      pages.append(button, ' ');
    }
  };

  const evidence = (row) => {
    const id = row[width], address = row[width + 1];
    if (data.how === 'inline') {
      const held = byId('d-' + id);
      return held ? held.content.cloneNode(true) : make('p', 'No evidence of this cell is kept here.');
    }
    if (data.how === 'file' && address) return make('iframe', undefined, { sandbox: '', src: address, title: 'Evidence of cell ' + id });
    if (data.how === 'directory') return make('a', 'The evidence lies in ' + address, { href: address });
    return make('p', 'No evidence of this cell is kept here.');
  };
  const look = (place) => {
    const row = shown[place], dialog = byId('cell'), facts = byId('facts');
    open = place;
    byId('cell-title').textContent = row[0];
    facts.replaceChildren();
    [...columns.slice(1), 'cell'].forEach((name, at) => {
      const pair = make('div');
      pair.append(make('dt', name), make('dd', words(row[at + 1])));
      facts.append(pair);
    });
    byId('evidence').replaceChildren(evidence(row));
    byId('previous').disabled = place === 0;
    byId('next').disabled = place + 1 >= shown.length;
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };
  const move = (by) => { if (open + by >= 0 && open + by < shown.length) look(open + by); };
  byId('previous').addEventListener('click', () => move(-1));
  byId('next').addEventListener('click', () => move(1));
  byId('close').addEventListener('click', () => byId('cell').close());
  byId('cell').addEventListener('close', () => {
    if (open < page * PAGE || open >= (page + 1) * PAGE) { page = Math.floor(open / PAGE); draw(); }
    const buttons = byId('table').querySelectorAll('td button');
    if (buttons[open - page * PAGE]) buttons[open - page * PAGE].focus();
  });
  byId('cell').addEventListener('keydown', (event) => {
    if (event.target.closest('pre')) return;
    if (event.key === 'ArrowLeft') move(-1);
    if (event.key === 'ArrowRight') move(1);
  });
  filters();
  select();
})();
