import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('inventory', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='rolebinding',
            name='pool',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='inventory.pool'),
        ),
        migrations.AddField(
            model_name='rolebinding',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='bindings', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='rolebinding',
            constraint=models.UniqueConstraint(condition=models.Q(('pool', None), _negated=True), fields=('user', 'role', 'pool'), name='one_binding_in_a_pool'),
        ),
        migrations.AddConstraint(
            model_name='rolebinding',
            constraint=models.UniqueConstraint(condition=models.Q(('pool', None)), fields=('user', 'role'), name='one_binding_everywhere'),
        ),
    ]
