optimizer = dict(type='SGD', lr=0.02, momentum=0.9)
lr_config = dict(policy='step', step=[8, 11])
max_epochs = 12
